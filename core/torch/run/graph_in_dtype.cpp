// A graph as RunOptions::dtype runs it, written out for those who can only run files.
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "core/torch/graph_in_dtype.h"
#include "core/torch/run/dtype_change.h"
#include "core/torch/run/float32_parts.h"
#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

Status castWeights(Graph& g, const DTypeChange& change, const Float32Parts* parts) {
  if (!change.to) return done();
  const DType to = *change.to;
  for (ValueId w : g.weights()) {
    const at::Tensor data = weightTensor(g.value(w));
    if (!data.defined()) continue;
    try {
      const bool keeps = parts && parts->keepsWeight(w);
      const at::Tensor cast = keeps ? keptWeight(data, to) : weightInDType(g.value(w), data, to);
      if (cast.is_same(data)) continue;
      Value& weight = g.mutableWeight(w);
      weight.data = std::make_shared<TensorWeight>(cast);
      if (!keeps) weight.type.tensorInfo.dtype = to;
    } catch (const std::exception& e) {
      return badInput("the weight " + g.value(w).path + " cannot be brought to " + std::string(dtypeName(to)) + ": " +
                      shortMessage(e));
    }
  }
  return done();
}

/// Calls `f` for what the type says of tensors, of those in lists and tuples too.
template <class F>
void forEachTensor(Type& t, F&& f) {
  if (t.isTensor()) f(t.tensorInfo);
  for (Type& e : t.elements) forEachTensor(e, f);
}

template <class F>
void changeTensorsInBetween(Graph& g, F&& f) {
  for (size_t i = 0; i < g.valueBound(); ++i) {
    const ValueId v(static_cast<uint32_t>(i));
    if (!g.value(v).alive || g.isWeight(v) || g.isInput(v)) continue;
    Type t = g.value(v).type;
    forEachTensor(t, [&](TensorInfo& info) { f(info, g.value(v)); });
    g.setType(v, std::move(t));
  }
}

/// What the graph says of the values in between is of the dtype it had.
void retype(Graph& g, const DTypeChange& change, const Float32Parts* parts) {
  // Inference begins with what the graph says and leaves it where it knows nothing better: in blocks, behind operators
  // that do not say what they return.
  changeTensorsInBetween(g, [&](TensorInfo& t, const Value& v) {
    if (t.dtype && !(parts && v.producer && parts->keeps(v.producer))) t.dtype = change.of(*t.dtype);
  });
  std::vector<Type> inputs;
  for (ValueId v : g.inputs()) inputs.push_back(g.value(v).type);
  if (inferAllTypes(g, inputs)) return;
  // An operator refuses the dtype: what the others say of theirs may come from it.
  changeTensorsInBetween(g, [](TensorInfo& t, const Value&) { t = {}; });
}

}  // namespace

Result<GraphInDType> inDType(const Graph& original, DType to, const std::vector<NodeId>& inFloat32) {
  const DTypeChange change = changeTo(original, to);
  std::optional<Float32Parts> parts = keepFloat32(original, change, inFloat32);
  GraphInDType out{parts ? std::move(parts->graph) : original, false};
  Graph& g = out.graph;
  if (Status s = castWeights(g, change, parts ? &*parts : nullptr); !s) return s.error();
  for (ValueId v : g.inputs()) {
    Type t = g.value(v).type;
    if (!t.isTensor() || !t.tensorInfo.dtype || !isFloatingPoint(*t.tensorInfo.dtype)) continue;
    t.tensorInfo.dtype = to;
    g.setType(v, t);
  }
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    const bool keeps = parts && parts->keeps(id);
    bool changed = parts && id.index >= parts->originalNodes;
    for (Argument& a : args) {
      Argument now = keeps ? change.keptArgument(a) : change.argument(a);
      if (now == a) continue;
      a = std::move(now);
      changed = true;
    }
    if (const auto d = n.op->findParameter("dtype"); d && !keeps && change.from == DType::Float32 && makesFloats(n)) {
      while (args.size() <= *d) args.push_back(n.op->parameters[args.size()].defaultValue.value_or(Argument::none()));
      if (args[*d].isNone()) args[*d] = Argument(to), changed = true;
    }
    if (!changed) continue;
    g.setArguments(id, std::move(args));
    out.rewroteArguments = true;
  }
  for (ValueId w : g.weights()) {
    const auto is = g.value(w).type.tensorInfo.dtype;
    out.rewroteArguments = out.rewroteArguments || (is && isFloatingPoint(*is) && is != to);
  }
  retype(g, change, parts ? &*parts : nullptr);
  return out;
}

}  // namespace graft
