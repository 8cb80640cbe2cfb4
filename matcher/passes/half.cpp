// half(): float32 weights and calculations become float16. The model's inputs and outputs keep their dtype: they are
// cast at the border. Literals beyond float16's range are brought to its edge, so that "minus a lot" in a mask does not
// become -inf (and 0 * -inf not NaN).
#include <algorithm>

#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

constexpr double largestHalf = 65504.0;

bool isSingle(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.isTensor() && t.tensorInfo.dtype == DType::Float32;
}

// float32 literals become float16, numbers are clamped; true where something changed.
bool adapt(Argument& a) {
  if (auto* d = std::get_if<DType>(&a.data); d && *d == DType::Float32) {
    *d = DType::Float16;
    return true;
  }
  if (auto* x = std::get_if<double>(&a.data); x && std::abs(*x) > largestHalf && std::abs(*x) < 1e300) {
    *x = std::clamp(*x, -largestHalf, largestHalf);
    return true;
  }
  bool changed = false;
  if (auto* l = std::get_if<Argument::List>(&a.data))
    for (Argument& i : l->items) changed = adapt(i) || changed;
  return changed;
}

}  // namespace

Records half(Graph& g, const Semantics& semantics, const Step&) {
  const OperatorRef cast = semantics.operators().find("aten.to.dtype");
  if (!cast) return internalError("the operator aten.to.dtype is not known to this build");
  const auto castArgs = [&](ValueId v, DType to) {
    std::vector<Argument> args{Argument(v), Argument(to)};
    for (size_t i = args.size(); i < cast->parameters.size(); ++i)
      args.push_back(cast->parameters[i].defaultValue.value_or(Argument()));
    return args;
  };
  const auto retyped = [&](ValueId v, DType to) {
    Type t = g.value(v).type;
    t.tensorInfo.dtype = to;
    return t;
  };
  Record r;
  r.rule = "half";
  r.changesNumbers = true;
  // Results that were float32 keep that dtype for the caller.
  std::vector<ValueId> results;
  for (const Argument& a : g.returns())
    a.forEachValue([&](ValueId v) {
      if (isSingle(g, v) && std::find(results.begin(), results.end(), v) == results.end()) results.push_back(v);
    });
  for (ValueId w : g.weights()) {
    if (!isSingle(g, w)) continue;
    const NodeId id = g.prepend(g.root(), cast, castArgs(w, DType::Float16));
    auto values = semantics.evaluate(g, id);
    if (!values || values->empty() || !(*values)[0].data) {
      const std::string path = g.value(w).path;
      g.erase(id);
      return badInput("the weight " + path + " cannot be converted to float16" +
                      (values ? "" : ": " + values.error().message));
    }
    g.erase(id);
    Value& weight = g.mutableWeight(w);
    weight.data = (*values)[0].data;
    weight.type = (*values)[0].type;
    r.newWeights.push_back(weight.path);
  }
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    bool changed = false;
    for (Argument& a : args) changed = adapt(a) || changed;
    if (changed) g.setArguments(id, std::move(args));
  }
  const std::vector<ValueId> inputs(g.inputs().begin(), g.inputs().end());
  for (ValueId v : inputs) {
    if (!isSingle(g, v)) continue;
    const NodeId id = g.prepend(g.root(), cast, castArgs(v, DType::Float16), g.value(v).name + "_half");
    const ValueId out = g.output(id);
    g.replaceAllUses(v, out);
    g.setArguments(id, castArgs(v, DType::Float16));
    g.setType(out, retyped(v, DType::Float16));
    r.added.push_back(id);
    std::vector<Argument> returns(g.returns().begin(),
                                  g.returns().end());  // an input that is returned as it is stays so
    for (Argument& a : returns)
      a.forEachValueMutable([&](ValueId& u) {
        if (u == out) u = v;
      });
    g.setReturns(g.root(), std::move(returns));
  }
  for (NodeId id : g.order()) {
    auto types = semantics.inferTypes(g, id);
    if (!types) continue;  // the executor will say what does not fit; types stay as they were
    const std::vector<ValueId> outputs = g.node(id).outputs;
    for (size_t o = 0; o < types->size() && o < outputs.size(); ++o)
      if ((*types)[o].tensorInfo.dtype) g.setType(outputs[o], (*types)[o]);
  }
  for (ValueId v : results) {
    if (g.isInput(v)) continue;
    std::vector<Argument> returns(g.returns().begin(), g.returns().end());
    const NodeId id = g.append(g.root(), cast, castArgs(v, DType::Float32), g.value(v).name + "_float");
    const ValueId out = g.output(id);
    g.setType(out, retyped(v, DType::Float32));
    for (Argument& a : returns)
      a.forEachValueMutable([&](ValueId& u) {
        if (u == v) u = out;
      });
    g.setReturns(g.root(), std::move(returns));
    r.added.push_back(id);
  }
  for (NodeId id : r.added) r.addedNames.push_back(g.node(id).name);
  if (r.added.empty() && r.newWeights.empty()) return std::vector<Record>{};
  return std::vector<Record>{std::move(r)};
}

}  // namespace graft
