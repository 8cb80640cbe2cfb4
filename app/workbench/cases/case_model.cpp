#include "app/workbench/cases/case_model.h"

#include <fmt/format.h>

#include <map>

#include "core/ir/verify.h"
#include "core/torch/semantics.h"
#include "matcher/lang/rule_file.h"

namespace graft::workbench {
namespace {

/// A weight of that type with numbers that differ from each other: sin of a range, made positive for variances; of
/// whole numbers, the range itself.
Result<Semantics::Constant> weightOf(const Given& given, const Semantics& semantics) {
  const OperatorSet& ops = semantics.operators();
  const TensorInfo& type = given.type.tensorInfo;
  const bool isWhole = !isFloatingPoint(*type.dtype);
  const bool isPositive = given.name.starts_with("var");
  const double from = isWhole ? 0 : 0.3 * given.name.front();  // so that no two weights are alike
  int64_t count = 1;
  std::vector<Argument> sizes;
  for (const Dim& d : *type.shape) {
    count *= d.size;
    sizes.emplace_back(d.size);
  }
  Graph g;
  Semantics::Constant now;
  Status state = done();
  const auto step = [&](const char* op, std::vector<Argument> more) {
    if (!state) return;
    std::vector<Argument> args;
    if (now.data) args.emplace_back(g.addWeight("w" + std::to_string(g.nodeCount()), now.type, now.data));
    args.insert(args.end(), more.begin(), more.end());
    const OperatorRef ref = ops.find(op);
    while (args.size() < ref->parameters.size())
      args.push_back(ref->parameters[args.size()].defaultValue.value_or(Argument()));
    auto made = semantics.evaluate(g, g.append(g.root(), ref, std::move(args)));
    if (made)
      now = std::move((*made)[0]);
    else
      state = made.error();
  };
  const double to = isWhole ? static_cast<double>(count - 1) : from + static_cast<double>(count) * 1.7;
  step("aten.linspace.default", {Argument(from), Argument(to), Argument(count)});
  if (!isWhole) step("aten.sin.default", {});
  if (isPositive) step("aten.abs.default", {});
  if (isPositive) step("aten.add.Tensor", {Argument(0.5), Argument(int64_t{1})});
  if (*type.dtype == DType::Bool) step("aten.remainder.Scalar", {Argument(int64_t{2})});
  if (*type.dtype != DType::Float32) step("aten.to.dtype", {Argument(*type.dtype)});
  step("aten.reshape.default", {Argument::list(sizes)});
  if (!state) return badInput(fmt::format("the weight {} cannot be made: {}", given.name, state.error().message));
  return now;
}

/// The nodes of a case's function, put one after the other into a model.
class ModelMaker {
 public:
  ModelMaker(const Graph& from, const Semantics& semantics) : from_(from), semantics_(semantics) {}

  Result<Graph> make(const std::vector<Given>& given) {
    std::vector<Type> inputs;
    for (size_t i = 0; i < given.size(); ++i) {
      const ValueId old = from_.inputs()[i];
      if (!given[i].isWeight) {
        to_[old.index] = g_.addInput(given[i].name, given[i].type);
        inputs.push_back(given[i].type);
        continue;
      }
      auto weight = weightOf(given[i], semantics_);
      if (!weight) return weight.error();
      to_[old.index] = g_.addWeight(given[i].name, weight->type, weight->data);
    }
    for (NodeId id : from_.order())
      if (Status s = add(from_.node(id)); !s) return s.error();
    std::vector<Argument> returns{from_.returns().begin(), from_.returns().end()};
    if (Status s = rename(returns); !s) return s.error();
    g_.setReturns(g_.root(), std::move(returns));
    if (Status s = inferAllTypes(g_, inputs); !s) return s.error();
    if (Status s = verify(g_); !s) return s.error();
    return std::move(g_);
  }

 private:
  Status rename(std::vector<Argument>& args) const {
    bool isKnown = true;
    for (Argument& a : args) {
      if (const auto* named = a.as<Named>(); named && named->name == "_") a = Argument(true);  // cudnn_enabled
      a.forEachValueMutable([&](ValueId& v) {
        const auto at = to_.find(v.index);
        if (at == to_.end())
          isKnown = false;
        else
          v = at->second;
      });
    }
    if (isKnown) return done();
    return badInput("a case is a model of operators: write sizes as numbers, and leave out any_of and optional");
  }

  Status add(const Node& n) {
    if (n.op->name == "pattern.expr") return done();  // what asks for its value says so
    std::vector<Argument> args = n.args;
    if (Status s = rename(args); !s) return s;
    if (n.op->name == "pattern.any_of") {  // a cast, or what is of that dtype: the model has the cast
      if (args.empty() || !args[0].isValue())
        return badInput("a case is a model: it computes one thing, without any_of");
      to_[n.outputs[0].index] = args[0].valueId();
      return done();
    }
    const NodeId made = g_.append(g_.root(), n.op, std::move(args), n.name);
    while (g_.node(made).outputs.size() < n.outputs.size()) g_.addOutput(made, n.name, Type::any());
    for (size_t i = 0; i < n.outputs.size(); ++i) to_[n.outputs[i].index] = g_.node(made).outputs[i];
    return done();
  }

  const Graph& from_;
  const Semantics& semantics_;
  Graph g_;
  std::map<uint32_t, ValueId> to_;
};

}  // namespace

Result<Graph> modelOf(const Case& c, const Semantics& semantics) {
  const auto file = parseRuleText(c.python(), c.file, semantics.operators());
  if (!file) return file.error();
  auto made = ModelMaker(file->rules[0].pattern, semantics).make(c.given);
  if (made || made.error().position) return made;
  return badInputAt({c.file, c.line, 0, {}}, made.error().message);
}

Result<TensorSet> inputsOf(const Case& c, const Graph& model) {
  std::vector<std::string> specs;
  for (const Given& g : c.given)
    if (!g.isWeight) specs.push_back(g.spec);
  return makeInputs(model, specs, 7);
}

}  // namespace graft::workbench
