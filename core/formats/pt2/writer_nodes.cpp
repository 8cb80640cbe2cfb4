#include <fmt/format.h>

#include <algorithm>

#include "core/formats/pt2/writer.h"
#include "core/formats/pt2_schema.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {

using nlohmann::json;

namespace {

// The normal form's ge.Tensor(x, 0) is PyTorch's ge.Scalar.
std::string withNumbers(const Graph& g, const Node& n) {
  static const TorchOperators operators{};
  const auto isNumber = [&](size_t i) {
    const Argument& a = n.args[i];
    if (!n.op->parameters[i].type.isTensor()) return false;
    if (!a.isValue()) return a.number() || a.as<std::complex<double>>();
    const Type::Kind kind = g.value(a.valueId()).type.kind;
    return kind == Type::Kind::Int || kind == Type::Kind::Float;
  };
  bool any = false;
  for (size_t i = 0; i < n.args.size(); ++i) any = any || isNumber(i);
  if (!any) return n.op->name;
  for (const OperatorRef& other : operators.overloads(n.op->packetName())) {
    bool fits = other->parameters.size() == n.args.size();
    for (size_t i = 0; fits && i < n.args.size(); ++i)
      fits = other->parameters[i].name == n.op->parameters[i].name &&
             (isNumber(i) ? other->parameters[i].type.kind == Type::Kind::Number
                          : other->parameters[i].type == n.op->parameters[i].type);
    if (fits) return other->name;
  }
  return n.op->name;
}

// torch.export does arithmetic on sizes with Python's functions.
std::string target(const Graph& g, const Node& n) {
  static const std::unordered_map<std::string_view, const char*> python{
      {"aten.add.int", "_operator.add"},
      {"aten.sub.int", "_operator.sub"},
      {"aten.mul.int", "_operator.mul"},
      {"aten.floordiv.int", "_operator.floordiv"},
      {"aten.remainder.int", "_operator.mod"},
      {"aten.neg.int", "_operator.neg"},
      {"prim.max.int", "torch.sym_max"},
      {"prim.min.int", "torch.sym_min"},
      {"aten.eq.int", "_operator.eq"},
      {"aten.ne.int", "_operator.ne"},
      {"aten.lt.int", "_operator.lt"},
      {"aten.le.int", "_operator.le"},
      {"aten.gt.int", "_operator.gt"},
      {"aten.ge.int", "_operator.ge"},
      {"aten.size.int", "torch.ops.aten.sym_size.int"}};
  if (const auto it = python.find(n.op->name); it != python.end()) return it->second;
  if (isForeign(*n.op)) {
    if (!n.args.empty())
      throw Pt2Refusal(
          "this machine does not have the operator, and torch.export needs the names of its arguments, which only "
          "files "
          "of torch.export hold; load the library that defines it, or write TorchScript (.pt) instead");
    return "torch.ops." + n.op->name;
  }
  if (isOfNoLibrary(*n.op)) throw Pt2Refusal(missingOperatorsText({n.op->name}));
  if (!n.op->hasSchema || n.op->name.starts_with("prim."))
    throw Pt2Refusal("torch.export has no such operator; write TorchScript (.pt) instead");
  return "torch.ops." + withNumbers(g, n);
}

}  // namespace

json ExportWriter::metadata(const Node& n) {
  json out = json::object();
  if (const SourceLocation* s = g_.sourceOf(n); s && !s->file.empty())
    out["stack_trace"] = fmt::format("File \"{}\", line {}, in forward\n    {}", s->file, s->line, s->code);
  out["nn_module_stack"] =
      n.module ? stacks_[n.module.index] : fmt::format("L__self__,,{}", g_.name.empty() ? "Model" : g_.name);
  return out;
}

std::string ExportWriter::expression(const Argument& given) const {
  const Argument& a = known(given);
  if (const auto* i = a.as<int64_t>()) return std::to_string(*i);
  if (a.isValue())
    if (const auto it = expressions_.find(a.valueId().index); it != expressions_.end()) return "(" + it->second + ")";
  throw Pt2Refusal("it computes with a size that is not known before it runs");
}

bool ExportWriter::comparedSizes(const Node& n) {
  static const std::unordered_map<std::string_view, const char*> relations{
      {"aten.eq.int", "Equality"}, {"aten.ne.int", "Unequality"},        {"aten.lt.int", "StrictLessThan"},
      {"aten.le.int", "LessThan"}, {"aten.gt.int", "StrictGreaterThan"}, {"aten.ge.int", "GreaterThan"}};
  const auto relation = relations.find(n.op->name);
  if (relation == relations.end()) return false;
  const std::string left = sympy(expression(n.args[0])).first, right = sympy(expression(n.args[1])).first;
  body_.bools[name(n.outputs[0])] = {
      {"as_expr", {{"expr_str", fmt::format("{}({}, {})", relation->second, left, right)}, {"hint", nullptr}}}};
  return true;
}

void ExportWriter::sizeValue(const Node& n) {
  const ValueId v = n.outputs[0];
  std::string e;
  if (n.op->name == "aten.size.int") {
    const auto* dim = n.args[1].as<int64_t>();
    const auto& shape = g_.value(n.args[0].valueId()).type.tensorInfo.shape;
    const int64_t rank = shape ? static_cast<int64_t>(shape->size()) : 0;
    const int64_t at = dim && *dim < 0 ? *dim + rank : dim ? *dim : -1;
    if (at < 0 || at >= rank || !(*shape)[static_cast<size_t>(at)].isKnown())
      throw Pt2Refusal("it reads a size that is not known before it runs: give the model's inputs (--inputs)");
    const Dim& d = (*shape)[static_cast<size_t>(at)];
    e = d.isStatic() ? std::to_string(d.size) : d.symbol;
  } else if (n.op->name == "aten.neg.int") {
    e = "-" + expression(n.args[0]);
  } else {
    static const std::unordered_map<std::string_view, const char*> forms{
        {"aten.add.int", "{} + {}"},     {"aten.sub.int", "{} - {}"},           {"aten.mul.int", "{}*{}"},
        {"aten.floordiv.int", "{}//{}"}, {"aten.remainder.int", "Mod({}, {})"}, {"prim.max.int", "Max({}, {})"},
        {"prim.min.int", "Min({}, {})"}};
    const auto form = forms.find(n.op->name);
    if (form == forms.end())
      throw Pt2Refusal(
          "it computes a size in a way that torch.export cannot express: give the model's inputs (--inputs), which "
          "fixes the sizes");
    e = fmt::format(fmt::runtime(form->second), expression(n.args[0]), expression(n.args[1]));
  }
  body_.ints[name(v)] = symbolic(e);
  expressions_[v.index] = e;
}

// Sizes are known where the inputs are given. What tensors hold is not, even then: a program for one content would be
// wrong for all others.
bool ExportWriter::readsContent(const Argument& given, std::unordered_set<uint32_t>& seen) const {
  bool out = false;
  known(given).forEachValue([&](ValueId v) {
    if (out || !seen.insert(v.index).second) return;
    const Value& value = g_.value(v);
    if (!value.producer) {
      out = value.type.isTensor() && !value.isConstant;
      return;
    }
    const Node& n = g_.node(value.producer);
    if (n.op->is(OperatorFact::MetadataOnly)) return;
    for (const Argument& a : n.args) out = out || readsContent(a, seen);
  });
  return out;
}

void ExportWriter::refuseContent(const Node& n) const {
  if (n.outputs.size() != 1 || n.args.empty() || g_.value(n.outputs[0]).type.isTensor()) return;
  std::unordered_set<uint32_t> seen;
  const Argument& a = known(n.args[0]);
  if (!a.isValue() || !g_.value(a.valueId()).type.isTensor() || !readsContent(a, seen)) return;
  static const std::unordered_set<std::string_view> readers{
      "aten.Int.Tensor",          "aten.Float.Tensor",          "aten.ScalarImplicit.default",
      "aten.IntImplicit.default", "aten.FloatImplicit.default", "aten.item.default"};
  if (readers.contains(n.op->name))
    throw Pt2Refusal(
        "it reads a number out of a tensor that only a run computes, and a size or another number follows from it; "
        "write TorchScript (.pt) instead");
}

void ExportWriter::nodes(BlockId block) {
  const std::vector<NodeId> order = g_.order(block);
  for (NodeId id : order)
    if (g_.node(id).op->name == "prim.Loop") findCondition(g_.node(id));
  for (NodeId id : order) {
    const Node& n = g_.node(id);
    try {
      if (n.op->name == "prim.If")
        conditional(n);
      else if (n.op->name == "prim.Loop")
        loop(n);
      else if (!n.blocks.empty())
        throw Pt2Refusal("torch.export has no such control flow; write TorchScript (.pt) instead");
      else if (!isOnlyCondition(n) && !asked_.contains(id.index) && !settle(n))
        node(n);
    } catch (const Pt2Refusal& r) {
      // The innermost node has named itself already.
      if (std::string_view(r.what()).starts_with("node ")) throw;
      throw Pt2Refusal(fmt::format("node {} ({}): {}", n.name, n.op->name, r.what()));
    }
  }
}

void ExportWriter::node(const Node& n) {
  if (n.op->name == "prim.getitem") {
    const auto* index = n.args[1].as<int64_t>();
    const ValueId list = n.args[0].isValue() ? n.args[0].valueId() : ValueId();
    if (!index || !list || !elements_.contains(list.index) || *index < 0 ||
        static_cast<size_t>(*index) >= elements_.at(list.index).size())
      throw Pt2Refusal("it takes an element of a list in a way that torch.export cannot express");
    names_[n.outputs[0].index] = elements_.at(list.index)[static_cast<size_t>(*index)];
    return;
  }
  refuseContent(n);
  const bool isNumber = n.op->name == "prim.NumToTensor.Scalar" || ofNumbersAlone(n);
  json made{{"target", isNumber ? "torch.ops.aten.scalar_tensor.default" : target(g_, n)},
            {"metadata", metadata(n)},
            {"is_hop_single_tensor_return", nullptr}};
  json inputs = json::array(), outputs = json::array();
  if (isNumber) {
    inputs = numberAsTensor(n);
  } else {
    for (size_t i = 0; i < n.args.size(); ++i) {
      const Parameter& p = n.op->parameters.at(i);
      inputs.push_back({{"name", p.name}, {"arg", argument(n.args[i], &p.type)}, {"kind", p.keywordOnly ? 2 : 1}});
    }
  }
  for (const auto& [key, a] : n.kwargs) inputs.push_back({{"name", key}, {"arg", argument(a, nullptr)}, {"kind", 2}});
  for (ValueId v : n.outputs) {
    const Type& t = g_.value(v).type;
    // An attention that returns no weights, a gradient that nobody wants: no tensor, so a run finds no dtype for it.
    // So are sizes beside tensors that nobody reads, as attention on a GPU has them for its gradient.
    const bool nothing = t.kind == Type::Kind::None || t.kind == Type::Kind::Any || t.kind == Type::Kind::Int ||
                         (t.isTensor() && !t.tensorInfo.dtype);
    if (nothing && n.outputs.size() > 1 && g_.isUnused(v)) {
      outputs.push_back({{"as_none", true}});
    } else if (t.isTensor()) {
      body_.tensors[name(v)] = meta(t);
      outputs.push_back({{"as_tensor", {{"name", name(v)}}}});
    } else if (t.kind == Type::Kind::Int || t.kind == Type::Kind::Number) {
      sizeValue(n);
      outputs.push_back({{"as_sym_int", {{"as_name", name(v)}}}});
    } else if (t.kind == Type::Kind::Bool && comparedSizes(n)) {
      outputs.push_back({{"as_sym_bool", {{"as_name", name(v)}}}});
    } else if (t.kind == Type::Kind::List && t.element().isTensor()) {
      outputs.push_back(listOutput(v));
    } else {
      throw Pt2Refusal(fmt::format("its result is {}, which torch.export cannot hold", toString(t)));
    }
  }
  made["inputs"] = std::move(inputs);
  made["outputs"] = std::move(outputs);
  // A node of several results has a name of its own.
  made["name"] = n.outputs.size() == 1 ? name(n.outputs[0]) : fresh(n.name);
  body_.nodes.push_back(std::move(made));
}

// An operator on tensors whose tensors are all numbers, such as 16 * 0.5: torch.export has no overload for it.
bool ExportWriter::ofNumbersAlone(const Node& n) const {
  if (!n.op->hasSchema || n.outputs.empty()) return false;
  bool any = false;
  for (size_t i = 0; i < n.args.size(); ++i) {
    if (!n.op->parameters.at(i).type.isTensor()) continue;
    any = true;
    const Argument& a = known(n.args[i]);
    if (a.isNone() || (a.isValue() && g_.value(a.valueId()).type.isTensor())) return false;
  }
  return any && constants_.contains(n.outputs[0].index);
}

// TorchScript's NumToTensor is torch.export's scalar_tensor, with the dtype named. So is a tensor of a known number.
json ExportWriter::numberAsTensor(const Node& n) {
  const auto dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
  if (!dtype) throw Pt2Refusal("the dtype of its result is not known: give the model's inputs (--inputs)");
  Argument number = n.args[0];
  if (n.op->name != "prim.NumToTensor.Scalar") {
    const auto& data = dynamic_cast<const TensorWeight&>(*constants_.at(n.outputs[0].index));
    number = *toArgument(c10::IValue(data.tensor.item()));
  }
  return json::array({{{"name", "s"}, {"arg", argument(number, nullptr)}, {"kind", 1}},
                      {{"name", "dtype"}, {"arg", argument(Argument(*dtype), nullptr)}, {"kind", 2}}});
}

// Each element of a list has a name of its own, so nodes that take one element are not written.
json ExportWriter::listOutput(ValueId list) {
  int64_t count = 0;
  std::unordered_map<int64_t, ValueId> taken;
  for (NodeId user : g_.value(list).users) {
    const Node& u = g_.node(user);
    const auto* i = u.op->name == "prim.getitem" ? u.args[1].as<int64_t>() : nullptr;
    if (!i || *i < 0)
      throw Pt2Refusal("other nodes use the list that it makes as a whole, which torch.export cannot express");
    count = std::max(count, *i + 1);
    if (!taken.emplace(*i, u.outputs[0]).second) continue;
  }
  json out = json::array();
  auto& names = elements_[list.index];
  for (int64_t i = 0; i < count; ++i) {
    const auto it = taken.find(i);
    const std::string element =
        it == taken.end() ? fresh(fmt::format("{}_{}", g_.value(list).name, i)) : name(it->second);
    // An element that no node takes gets the type of one that some node does: nothing reads its numbers.
    body_.tensors[element] = meta(g_.value(it == taken.end() ? taken.begin()->second : it->second).type);
    names.push_back(element);
    out.push_back({{"name", element}});
  }
  return {{"as_tensors", out}};
}

}  // namespace graft
