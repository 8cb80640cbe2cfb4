// half: float32 weights and calculations become float16. The model's inputs and outputs keep their dtype: they are
// cast at the border. Literals beyond float16's range become its largest number, so that "minus a lot" in a mask does
// not become -inf (and 0 * -inf not NaN).
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

std::vector<Argument> castArguments(const Operator& cast, ValueId v, DType to) {
  std::vector<Argument> args{Argument(v), Argument(to)};
  for (size_t i = args.size(); i < cast.parameters.size(); ++i)
    args.push_back(cast.parameters[i].defaultValue.value_or(Argument()));
  return args;
}

Type retyped(const Graph& g, ValueId v, DType to) {
  Type t = g.value(v).type;
  t.tensorInfo.dtype = to;
  return t;
}

// What the graph returns, with `to` for `from`.
std::vector<Argument> returnsWith(const Graph& g, ValueId from, ValueId to) {
  std::vector<Argument> returns(g.returns().begin(), g.returns().end());
  for (Argument& a : returns)
    a.forEachValueMutable([&](ValueId& v) {
      if (v == from) v = to;
    });
  return returns;
}

Status convertWeights(GraphEditor& editor, const OperatorRef& cast) {
  const Graph& g = editor.graph();
  for (ValueId w : g.weights()) {
    if (!isSingle(g, w)) continue;
    const NodeId id = editor.prepend(g.root(), cast, castArguments(*cast, w, DType::Float16));
    auto values = editor.semantics().evaluate(g, id);
    editor.takeBack(id);
    if (!values || values->empty() || !(*values)[0].data)
      return badInput("the weight " + g.value(w).path + " cannot be converted to float16" +
                      (values ? "" : ": " + values.error().message));
    editor.setWeight(w, (*values)[0]);
  }
  return done();
}

void castInputs(GraphEditor& editor, const OperatorRef& cast) {
  const Graph& g = editor.graph();
  const std::vector<ValueId> inputs(g.inputs().begin(), g.inputs().end());
  for (ValueId v : inputs) {
    if (!isSingle(g, v)) continue;
    const NodeId id =
        editor.prepend(g.root(), cast, castArguments(*cast, v, DType::Float16), g.value(v).name + "_half");
    const ValueId out = g.output(id);
    editor.redirectUses(v, out);
    editor.setArguments(id, castArguments(*cast, v, DType::Float16));
    editor.setType(out, retyped(g, v, DType::Float16));
    editor.setReturns(g.root(), returnsWith(g, out, v));  // an input that is returned as it is stays so
  }
}

Status half(GraphEditor& editor, const Step&) {
  const OperatorRef cast = editor.semantics().operators().find("aten.to.dtype");
  if (!cast) return internalError("the operator aten.to.dtype is not known to this build");
  const Graph& g = editor.graph();
  Record& record = editor.begin();
  record.changesNumbers = true;
  // Results that were float32 keep that dtype for the caller.
  std::vector<ValueId> results;
  for (const Argument& a : g.returns())
    a.forEachValue([&](ValueId v) {
      if (isSingle(g, v) && std::find(results.begin(), results.end(), v) == results.end()) results.push_back(v);
    });
  if (Status s = convertWeights(editor, cast); !s) return s;
  std::vector<NodeId> adapted;
  for (NodeId id : g.order()) {
    std::vector<Argument> args = g.node(id).args;
    bool changed = false;
    for (Argument& a : args) changed = adapt(a) || changed;
    if (!changed) continue;
    editor.setArguments(id, std::move(args));
    adapted.push_back(id);
  }
  castInputs(editor, cast);
  for (NodeId id : g.order()) {
    auto types = editor.semantics().inferTypes(g, id);
    if (!types) continue;  // the executor will say what does not fit; types stay as they were
    const std::vector<ValueId> outputs = g.node(id).outputs;
    for (size_t o = 0; o < types->size() && o < outputs.size(); ++o)
      if ((*types)[o].tensorInfo.dtype) editor.setType(outputs[o], (*types)[o]);
  }
  for (ValueId v : results) {
    if (g.isInput(v)) continue;
    const NodeId id =
        editor.insert(g.root(), {}, cast, castArguments(*cast, v, DType::Float32), g.value(v).name + "_float");
    const ValueId out = g.output(id);
    editor.setType(out, retyped(g, v, DType::Float32));
    editor.setReturns(g.root(), returnsWith(g, v, out));
  }
  if (record.added.empty() && record.newWeights.empty())
    for (NodeId id : adapted) editor.noteChanged(id);  // literals are all that changed
  if (record.added.empty() && record.newWeights.empty())
    editor.cancel();
  else
    editor.commit();
  return done();
}

}  // namespace

GRAFT_PASS(half, "", "float16 inside; inputs and outputs keep their dtype", half)

}  // namespace graft
