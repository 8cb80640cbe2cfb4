#include "case_model.h"

#include <map>

#include "core/ir/verify.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "matcher/lang/rule_file.h"

namespace graft::test {

const Semantics& semantics() {
  static const std::unique_ptr<Semantics> s = [] {
    const Status loaded = loadOperatorLibrary();
    if (!loaded) throw std::runtime_error(loaded.error().format());
    return makeTorchSemantics();
  }();
  return *s;
}

namespace {

Type typeOf(const std::string& text) {
  const auto type = parseType(text + "@cpu");
  if (!type) throw std::runtime_error("no type: " + text);
  return *type;
}

/// A weight of that shape with numbers that differ from each other: sin of a range; made positive for variances.
Semantics::Constant weightOf(const Type& type, const std::string& name) {
  const OperatorSet& ops = semantics().operators();
  const bool positive = name.starts_with("var");
  const double from = 0.3 * name.front();  // so that no two weights are alike
  int64_t count = 1;
  std::vector<Argument> sizes;
  for (const Dim& d : *type.tensorInfo.shape) {
    count *= d.size;
    sizes.emplace_back(d.size);
  }
  Graph g;
  Semantics::Constant now;
  const auto step = [&](const char* op, std::vector<Argument> more) {
    std::vector<Argument> args;
    if (now.data) args.emplace_back(g.addWeight("w" + std::to_string(g.nodeCount()), now.type, now.data));
    args.insert(args.end(), more.begin(), more.end());
    const OperatorRef ref = ops.find(op);
    while (args.size() < ref->parameters.size())
      args.push_back(ref->parameters[args.size()].defaultValue.value_or(Argument()));
    now = take(semantics().evaluate(g, g.append(g.root(), ref, std::move(args))))[0];
  };
  step("aten.linspace.default", {Argument(from), Argument(from + double(count) * 1.7), Argument(count)});
  step("aten.sin.default", {});
  if (positive) step("aten.abs.default", {});
  if (positive) step("aten.add.Tensor", {Argument(0.5), Argument(int64_t{1})});
  step("aten.reshape.default", {Argument::list(sizes)});
  return now;
}

}  // namespace

/// The case's function as a model: weights where it says so, types known.
Graph modelOf(const Case& c) {
  const RuleFile file = take(parseRuleText(c.python(), c.file, semantics().operators()));
  const Graph& from = file.rules[0].pattern;
  Graph g;
  std::map<uint32_t, ValueId> to;
  std::vector<Type> inputs;
  for (size_t i = 0; i < c.given.size(); ++i) {
    const Given& given = c.given[i];
    const Type type = typeOf(given.type);
    const ValueId old = from.inputs()[i];
    if (given.isWeight) {
      const auto constant = weightOf(type, given.name);
      to[old.index] = g.addWeight(given.name, constant.type, constant.data);
    } else {
      to[old.index] = g.addInput(given.name, type);
      inputs.push_back(type);
    }
  }
  const auto renamed = [&](std::vector<Argument> args) {
    for (Argument& a : args)
      if (a.as<Named>() && a.as<Named>()->name == "_") a = Argument(true);  // cudnn_enabled, which a model has
    for (Argument& a : args)
      a.forEachValueMutable([&](ValueId& v) {
        if (!to.contains(v.index)) throw std::runtime_error("a case writes its sizes as numbers");
        v = to.at(v.index);
      });
    return args;
  };
  for (NodeId id : from.order()) {
    const Node& n = from.node(id);
    if (n.op->name == "pattern.expr") continue;
    if (n.op->name == "pattern.any_of") {  // a cast, or what is of that dtype: the model has the cast
      to[n.outputs[0].index] = to.at(n.args[0].valueId().index);
      continue;
    }
    const NodeId made = g.append(g.root(), n.op, renamed(n.args), n.name);
    while (g.node(made).outputs.size() < n.outputs.size()) g.addOutput(made, n.name, Type::any());
    for (size_t i = 0; i < n.outputs.size(); ++i) to[n.outputs[i].index] = g.node(made).outputs[i];
  }
  g.setReturns(g.root(), renamed({from.returns().begin(), from.returns().end()}));
  if (Status s = inferAllTypes(g, inputs); !s) throw std::runtime_error(s.error().format());
  if (Status s = verify(g); !s) throw std::runtime_error(s.error().format());
  return g;
}

TensorSet inputsOf(const Case& c, const Graph& model) {
  std::vector<std::string> specs;
  for (const Given& g : c.given)
    if (!g.isWeight) specs.push_back(g.type + ":" + (g.fill.empty() ? "randn" : g.fill));
  return take(makeInputs(model, specs, 7));
}

}  // namespace graft::test
