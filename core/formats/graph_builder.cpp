#include "core/formats/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <unordered_set>

#include "core/ir/normal_form.h"

namespace graft {
namespace {

/// Models nest modules some ten deep. Code that walks the tree of calls may use a stack frame for each level.
constexpr size_t mostNested = 1000;

Argument fitted(Argument a, const Type& parameter) {
  const Type& type = parameter.kind == Type::Kind::Optional ? parameter.element() : parameter;
  if (type.kind == Type::Kind::Float)
    if (const auto* i = a.as<int64_t>()) return Argument(static_cast<double>(*i));
  if (type.kind == Type::Kind::Device)
    if (const auto* s = a.as<std::string>()) return Argument(DeviceName{*s});
  if (type.kind == Type::Kind::List) {
    // FX writes tuples and lists alike, and a plain 1 for int[2].
    if (const auto* items = a.items()) {
      std::vector<Argument> out;
      for (const Argument& i : *items) out.push_back(fitted(i, type.element()));
      return Argument::list(std::move(out));
    }
  }
  return a;
}

bool fits(const Argument& a, const Type& type) {
  if (a.isValue() || type.kind == Type::Kind::Any) return true;
  if (type.kind == Type::Kind::Optional) return a.isNone() || fits(a, type.element());
  if (a.isNone()) return type.kind == Type::Kind::None;
  switch (type.kind) {
    case Type::Kind::Tensor:
    case Type::Kind::Number:
      return a.number() || a.as<std::complex<double>>() || a.as<SymbolicInt>();
    case Type::Kind::Int:
      return a.as<int64_t>() || a.as<bool>() || a.as<SymbolicInt>();
    case Type::Kind::Float:
      return a.number().has_value();
    case Type::Kind::Bool:
      return a.as<bool>() || a.as<int64_t>();
    case Type::Kind::String:
      return a.as<std::string>();
    case Type::Kind::DType:
      return a.as<DType>();
    case Type::Kind::Device:
      return a.as<DeviceName>();
    case Type::Kind::Layout:
    case Type::Kind::MemoryFormat:
      return a.as<Named>();
    case Type::Kind::List: {
      if (const auto* items = a.items())
        return std::all_of(items->begin(), items->end(), [&](const Argument& i) { return fits(i, type.element()); });
      return !type.element().isTensor() && fits(a, type.element());
    }
    default:
      return true;
  }
}

}  // namespace

std::optional<std::vector<Argument>> GraphBuilder::place(const Operator& op, const Call& call) {
  if (call.args.size() > op.parameters.size()) return std::nullopt;
  std::vector<Argument> args;
  size_t used = 0;
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    const Parameter& p = op.parameters[i];
    const auto named =
        std::find_if(call.kwargs.begin(), call.kwargs.end(), [&](const auto& k) { return k.first == p.name; });
    Argument a;
    if (i < call.args.size()) {
      if (p.keywordOnly || named != call.kwargs.end()) return std::nullopt;
      a = call.args[i];
    } else if (named != call.kwargs.end()) {
      a = named->second;
      ++used;
    } else if (p.defaultValue) {
      a = *p.defaultValue;
    } else if (p.type.kind != Type::Kind::Optional) {
      return std::nullopt;
    }
    a = fitted(std::move(a), p.type);
    if (!fits(a, p.type)) return std::nullopt;
    args.push_back(std::move(a));
  }
  if (used != call.kwargs.size()) return std::nullopt;
  return args;
}

NodeId GraphBuilder::add(BlockId block, const Call& call) {
  OperatorRef op = operators_.find(call.op);
  std::optional<std::vector<Argument>> args;
  if (op && op->hasSchema) args = place(*op, call);
  NodeId node;
  if (args) {
    if (const OperatorRef canonical = operators_.find(canonicalOperator(op->name));
        canonical && canonical->parameters.size() == args->size())
      op = canonical;
    node = g.append(block, op, std::move(*args), call.name);
  } else {
    // It must not keep the operator's name: all of Graft relies on that operator's arguments.
    std::string name = call.op;
    if (op && op->hasSchema && name.starts_with("aten.")) {
      std::replace(name.begin(), name.end(), '.', '_');
      name = "unfit." + name;
    }
    node = g.append(block, unknownOperator(std::move(name)), call.args, call.name);
    if (!call.kwargs.empty()) g.setKeywordArguments(node, call.kwargs);
  }
  if (call.module) g.setModule(node, call.module);
  if (call.source != UINT32_MAX) g.setSource(node, call.source);
  return node;
}

ValueId GraphBuilder::element(BlockId block, const Call& like, ValueId list, int64_t index, Type type,
                              std::string_view name) {
  Call item{"prim.getitem", {Argument(list), Argument(index)}, {}, std::string(name), like.module, like.source};
  const NodeId made = add(block, item);
  // A file that lies may take an element of what is no list: the operator is unknown then.
  if (g.node(made).outputs.empty()) return g.addOutput(made, name, std::move(type));
  const ValueId v = g.output(made);
  g.setType(v, std::move(type));
  return v;
}

ModuleCallId GraphBuilder::enter(const std::vector<Entered>& stack) {
  if (stack.size() > mostNested)
    throw std::runtime_error(fmt::format("its modules are nested more than {} deep", mostNested));
  ModuleCallId at;
  for (const Entered& e : stack) {
    if (e.path.empty()) continue;  // the model itself
    const auto [it, isNew] = calls_.try_emplace({at.index, e.key});
    if (isNew) it->second = g.addModuleCall(at, e.path, e.type);
    at = it->second;
  }
  return at;
}

uint32_t GraphBuilder::source(const std::string& stackTrace) {
  const auto [it, isNew] = sources_.try_emplace(stackTrace, UINT32_MAX);
  if (isNew)
    if (auto where = usersFrame(stackTrace)) it->second = g.addSource(std::move(*where));
  return it->second;
}

void GraphBuilder::findModuleInputs() {
  std::vector<std::unordered_set<uint32_t>> seen(g.moduleCalls().size());
  for (NodeId id : g.order()) {
    for (ModuleCallId m = g.node(id).module; m; m = g.moduleCall(m).parent) {
      const auto note = [&](ValueId v) {
        const Value& value = g.value(v);
        if (value.kind == Value::Kind::Weight) return;
        if (value.producer && g.isWithin(g.node(value.producer).module, m)) return;
        if (seen[m.index].insert(v.index).second) g.mutableModuleCall(m).inputs.push_back(v);
      };
      for (const Argument& a : g.node(id).args) a.forEachValue(note);
    }
  }
}

bool isPyTorchsOwn(std::string_view file) {
  return file.find("-packages/torch/") != file.npos || file.find("/torch/nn/") != file.npos;
}

namespace {

/// The frame that begins at `at` of a Python stack: 'File "F", line N, in FUNCTION', then the line's text.
std::optional<SourceLocation> frameAt(std::string_view trace, size_t at) {
  const size_t nameEnd = trace.find('"', at + 6);
  if (nameEnd == trace.npos) return std::nullopt;
  SourceLocation out;
  out.file = std::string(trace.substr(at + 6, nameEnd - at - 6));
  constexpr std::string_view lineMark = ", line ";
  if (trace.substr(nameEnd + 1, lineMark.size()) != lineMark) return std::nullopt;
  const char* number = trace.data() + nameEnd + 1 + lineMark.size();
  if (std::from_chars(number, trace.data() + trace.size(), out.line).ec != std::errc()) return std::nullopt;
  if (const size_t next = trace.find('\n', nameEnd); next != trace.npos) {
    std::string_view code = trace.substr(next + 1);
    code = code.substr(0, code.find('\n'));
    code.remove_prefix(std::min(code.find_first_not_of(' '), code.size()));
    out.code = std::string(code);
  }
  return out;
}

}  // namespace

std::optional<SourceLocation> usersFrame(std::string_view trace) {
  std::optional<SourceLocation> innermost;
  for (size_t at = trace.rfind("File \""); at != trace.npos;
       at = at == 0 ? trace.npos : trace.rfind("File \"", at - 1)) {
    auto frame = frameAt(trace, at);
    if (!frame) return innermost;
    if (!isPyTorchsOwn(frame->file)) return frame;
    if (!innermost) innermost = std::move(frame);
  }
  return innermost;
}

std::string numberOperator(std::string_view function, const std::vector<Argument>& args, const Graph& g) {
  bool floats = false, bools = !args.empty();
  for (const Argument& a : args) {
    const Type::Kind kind = a.isValue() ? g.value(a.valueId()).type.kind : Type::Kind::Any;
    floats |= a.as<double>() || kind == Type::Kind::Float;
    bools &= a.as<bool>() || kind == Type::Kind::Bool;
  }
  // The overloads for whole numbers, floats and bools; nullptr where there is none.
  struct Overloads {
    const char *name, *ints, *floats, *bools;
  };
  static const std::unordered_map<std::string_view, Overloads> table = [] {
    std::unordered_map<std::string_view, Overloads> out{{"pow", {"aten.pow", ".int", ".float", nullptr}},
                                                        {"sym_float", {"aten.Float", ".int", ".Scalar", ".bool"}},
                                                        {"trunc", {"aten.Int", ".Scalar", ".float", ".bool"}},
                                                        {"sym_int", {"aten.Int", ".Scalar", ".float", ".bool"}},
                                                        {"sym_sum", {"aten.sum", ".int", nullptr, nullptr}},
                                                        {"sym_not", {"aten.__not__", nullptr, nullptr, ""}},
                                                        {"not_", {"aten.__not__", nullptr, nullptr, ""}},
                                                        {"lshift", {"aten.__lshift__", ".int", nullptr, nullptr}},
                                                        {"rshift", {"aten.__rshift__", ".int", nullptr, nullptr}}};
    static constexpr std::pair<const char*, const char*> alike[] = {{"add", "aten.add"},
                                                                    {"sub", "aten.sub"},
                                                                    {"mul", "aten.mul"},
                                                                    {"truediv", "aten.div"},
                                                                    {"floordiv", "aten.floordiv"},
                                                                    {"mod", "aten.remainder"},
                                                                    {"neg", "aten.neg"},
                                                                    {"eq", "aten.eq"},
                                                                    {"ne", "aten.ne"},
                                                                    {"lt", "aten.lt"},
                                                                    {"le", "aten.le"},
                                                                    {"gt", "aten.gt"},
                                                                    {"ge", "aten.ge"},
                                                                    {"abs", "prim.abs"},
                                                                    {"sym_max", "prim.max"},
                                                                    {"sym_min", "prim.min"},
                                                                    {"max", "prim.max"},
                                                                    {"min", "prim.min"},
                                                                    {"floor", "aten.floor"},
                                                                    {"ceil", "aten.ceil"},
                                                                    {"sqrt", "aten.sqrt"},
                                                                    {"_sym_sqrt", "aten.sqrt"},
                                                                    {"_sym_sin", "aten.sin"},
                                                                    {"_sym_cos", "aten.cos"},
                                                                    {"_sym_tan", "aten.tan"},
                                                                    {"_sym_sinh", "aten.sinh"},
                                                                    {"_sym_cosh", "aten.cosh"},
                                                                    {"_sym_tanh", "aten.tanh"},
                                                                    {"_sym_asin", "aten.asin"},
                                                                    {"_sym_acos", "aten.acos"},
                                                                    {"_sym_atan", "aten.atan"}};
    for (const auto& [python, ours] : alike) out.emplace(python, Overloads{ours, ".int", ".float", nullptr});
    for (const auto& [python, ours] :
         {std::pair("and_", "aten.__and__"), std::pair("or_", "aten.__or__"), std::pair("xor", "aten.__xor__")})
      out.emplace(python, Overloads{ours, ".int", nullptr, ".bool"});
    return out;
  }();
  const auto it = table.find(function);
  if (it == table.end()) return {};
  const Overloads& known = it->second;
  const char* overload = bools && known.bools ? known.bools : floats ? known.floats : known.ints;
  return overload ? std::string(known.name) + (*overload ? overload : ".default") : std::string();
}

}  // namespace graft
