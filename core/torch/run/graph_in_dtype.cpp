// A graph as RunOptions::dtype runs it, written out for those who can only run files.
#include <exception>
#include <memory>

#include "core/torch/export.h"
#include "core/torch/run/dtype_change.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

Status castWeights(Graph& g, DType to) {
  for (ValueId w : g.weights()) {
    const at::Tensor data = weightTensor(g.value(w));
    if (!data.defined()) continue;
    try {
      const at::Tensor cast = weightInDType(g.value(w), data, to);
      if (cast.is_same(data)) continue;
      Value& weight = g.mutableWeight(w);
      weight.data = std::make_shared<TensorWeight>(cast);
      weight.type.tensorInfo.dtype = to;
    } catch (const std::exception& e) {
      return badInput("the weight " + g.value(w).path + " cannot be brought to " + std::string(dtypeName(to)) + ": " +
                      shortMessage(e));
    }
  }
  return done();
}

}  // namespace

Result<GraphInDType> inDType(const Graph& original, DType to) {
  GraphInDType out{original, false};
  Graph& g = out.graph;
  const DTypeChange change{modelDType(g), to};
  if (Status s = castWeights(g, to); !s) return s.error();
  for (ValueId v : g.inputs()) {
    Type t = g.value(v).type;
    if (!t.isTensor() || !t.tensorInfo.dtype || !isFloatingPoint(*t.tensorInfo.dtype)) continue;
    t.tensorInfo.dtype = to;
    g.setType(v, t);
  }
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    bool changed = false;
    for (Argument& a : args) {
      Argument now = change.argument(a);
      if (now == a) continue;
      a = std::move(now);
      changed = true;
    }
    if (const auto d = n.op->findParameter("dtype"); d && change.from == DType::Float32 && makesFloats(n)) {
      while (args.size() <= *d) args.push_back(n.op->parameters[args.size()].defaultValue.value_or(Argument::none()));
      if (args[*d].isNone()) args[*d] = Argument(to), changed = true;
    }
    if (!changed) continue;
    g.setArguments(id, std::move(args));
    out.rewroteArguments = true;
  }
  return out;
}

}  // namespace graft
