#include "core/torch/values/call_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/ir/calls/default_values.h"
#include "core/text/text.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

struct Call {
  std::vector<c10::IValue> args;
  std::vector<std::pair<std::string, c10::IValue>> kwargs;
};

bool isSequence(const c10::IValue& v) { return v.isTuple() || v.isList(); }
bool isContainer(const c10::IValue& v) { return isSequence(v) || v.isGenericDict(); }

std::vector<c10::IValue> itemsOf(const c10::IValue& v) {
  if (v.isTuple()) return v.toTupleRef().elements().vec();
  const auto list = v.toList();
  return {list.begin(), list.end()};
}

bool isNamed(const c10::IValue& v) {
  if (!v.isGenericDict()) return false;
  const auto dict = v.toGenericDict();
  return std::all_of(dict.begin(), dict.end(), [](const auto& e) { return e.key().isString(); });
}

std::vector<std::pair<std::string, c10::IValue>> namedEntries(const c10::IValue& v) {
  std::vector<std::pair<std::string, c10::IValue>> out;
  for (const auto& e : v.toGenericDict()) out.emplace_back(e.key().toStringRef(), e.value());
  return out;
}

/// What a file may mean by its value, the likeliest first.
std::vector<Call> callsOf(const c10::IValue& v) {
  std::vector<Call> out;
  if (isSequence(v)) {
    const std::vector<c10::IValue> items = itemsOf(v);
    out.push_back({items, {}});
    if (items.size() == 2 && isSequence(items[0]) && isNamed(items[1]))
      out.push_back({itemsOf(items[0]), namedEntries(items[1])});
  } else if (isNamed(v)) {
    out.push_back({{}, namedEntries(v)});
    Call both;
    bool isBoth = true;
    for (const auto& [name, value] : out[0].kwargs)
      if (name == "args" && isSequence(value))
        both.args = itemsOf(value);
      else if (name == "kwargs" && isNamed(value))
        both.kwargs = namedEntries(value);
      else
        isBoth = false;
    if (isBoth) out.push_back(std::move(both));
  }
  out.push_back({{v}, {}});
  return out;
}

class Binder {
 public:
  explicit Binder(const Graph& g) : g_(g) {
    if (g.calling) {
      names_ = g.calling->names;
      for (const TreeSpec& kind : g.calling->arguments.children)
        for (const TreeSpec& argument : kind.children) arguments_.push_back(&argument);
      positional_ = g.calling->arguments.children[0].children.size();
      return;
    }
    own_.reserve(g.inputs().size());
    for (ValueId v : g.inputs()) {
      names_.push_back(g.value(v).name);
      arguments_.push_back(&own_.emplace_back(TreeSpec{"", "", {}, Argument(v)}));
    }
    positional_ = arguments_.size();
  }

  /// The values of the inputs in their order; nothing where the call does not fit.
  std::optional<std::vector<c10::IValue>> bind(const Call& call) {
    why_.clear();
    given_.clear();
    std::vector<const c10::IValue*> values(arguments_.size(), nullptr);
    if (call.args.size() > arguments_.size()) {
      why_ = fmt::format("it has {} arguments", call.args.size());
      return std::nullopt;
    }
    for (size_t i = 0; i < call.args.size(); ++i) values[i] = &call.args[i];
    for (const auto& [name, value] : call.kwargs) {
      const auto at = std::find(names_.begin(), names_.end(), name);
      const auto i = static_cast<size_t>(at - names_.begin());
      if (at == names_.end() || values[i]) {
        why_ = at == names_.end() ? fmt::format("it has an argument {}", name)
                                  : fmt::format("it has the argument {} twice", name);
        return std::nullopt;
      }
      values[i] = &value;
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] ? !match(*arguments_[i], *values[i], names_[i]) : !mayMiss(*arguments_[i], names_[i]))
        return std::nullopt;
    std::vector<c10::IValue> out;
    for (ValueId v : g_.inputs()) out.push_back(given_.at(v.index));
    return out;
  }

  const std::string& why() const { return why_; }

  /// "(ids, mask, labels=None)"
  std::string signature() const {
    std::string out;
    for (size_t i = 0; i < arguments_.size(); ++i)
      out += (i ? ", " : "") + names_[i] + (i < positional_ ? ": " : "=") + text(*arguments_[i]);
    return "(" + out + ")";
  }

 private:
  bool wrong(std::string why) {
    why_ = std::move(why);
    return false;
  }

  /// What was exported as literals and what has defaults may be left out.
  bool mayMiss(const TreeSpec& argument, const std::string& name) {
    bool may = true;
    argument.forEachLeaf([&](const TreeSpec& t) {
      if (!t.leaf.isValue()) return;
      auto value = findDefaultValue(g_, t.leaf.valueId());
      may = may && value;
      if (value) given_[t.leaf.valueId().index] = std::move(*value);
    });
    return may || wrong(fmt::format("its argument {} is missing", name));
  }

  bool match(const TreeSpec& wanted, const c10::IValue& v, const std::string& where) {
    if (wanted.isLeaf()) return leaf(wanted.leaf, v, where);
    const std::vector<Argument> keys = wanted.keys();
    const size_t count = wanted.children.size();
    if (v.isGenericDict() && !keys.empty() && v.toGenericDict().size() == count) {
      const auto dict = v.toGenericDict();
      for (size_t i = 0; i < count; ++i) {
        const auto* text = keys[i].as<std::string>();
        const auto at = dict.find(text ? c10::IValue(*text) : c10::IValue(*keys[i].as<int64_t>()));
        const std::string path = fmt::format("{}[{}]", where, toText(keys[i], g_));
        if (at == dict.end()) return wrong(fmt::format("its argument {} is missing", path));
        if (!match(wanted.children[i], at->value(), path)) return false;
      }
      return true;
    }
    if (!isSequence(v) || itemsOf(v).size() != count || wanted.type == "builtins.dict")
      return wrong(fmt::format("its argument {} is {}", where, describe(v)));
    const std::vector<c10::IValue> items = itemsOf(v);
    for (size_t i = 0; i < count; ++i)
      if (!match(wanted.children[i], items[i], fmt::format("{}[{}]", where, i))) return false;
    return true;
  }

  bool leaf(const Argument& wanted, const c10::IValue& v, const std::string& where) {
    if (wanted.isValue()) {
      const Type& type = g_.value(wanted.valueId()).type;
      const bool nests = type.kind != Type::Kind::Tensor && type.kind != Type::Kind::Int &&
                         type.kind != Type::Kind::Float && type.kind != Type::Kind::Bool;
      if (isContainer(v) && !nests) return wrong(fmt::format("its argument {} is {}", where, describe(v)));
      given_[wanted.valueId().index] = asNumber(v, type);
      return true;
    }
    const auto given = toArgument(v);
    if (given && (*given == wanted || (given->number() && given->number() == wanted.number()))) return true;
    return wrong(fmt::format("the model was exported with {}={} and takes no other value, given was {}", where,
                             toText(wanted, g_), describe(v)));
  }

  std::string text(const TreeSpec& t) const {
    if (t.isLeaf() && !t.leaf.isValue()) return toText(t.leaf, g_);
    if (t.isLeaf()) {
      Type type = g_.value(t.leaf.valueId()).type;
      type.tensorInfo.device.clear();
      const Argument* value = findDefault(g_, t.leaf.valueId());
      return toString(type) + (value ? "=" + toText(*value, g_) : "");
    }
    const std::vector<Argument> keys = t.keys();
    std::string out;
    for (size_t i = 0; i < t.children.size(); ++i)
      out += (i ? ", " : "") + (keys.empty() ? "" : toText(keys[i], g_) + ": ") + text(t.children[i]);
    return !keys.empty() ? "{" + out + "}" : t.type == "builtins.list" ? "[" + out + "]" : "(" + out + ")";
  }

  const Graph& g_;
  std::vector<TreeSpec> own_;
  std::vector<const TreeSpec*> arguments_;
  std::vector<std::string> names_;
  size_t positional_ = 0;
  std::unordered_map<uint32_t, c10::IValue> given_;
  std::string why_;
};

}  // namespace

c10::IValue asNumber(c10::IValue v, const Type& wanted) {
  const Type& plain = wanted.kind == Type::Kind::Optional ? wanted.element() : wanted;
  const bool isNumber =
      plain.kind == Type::Kind::Int || plain.kind == Type::Kind::Float || plain.kind == Type::Kind::Bool;
  if (!isNumber || !v.isTensor()) return v;
  auto number = fit(v, *torchType(plain));
  return number ? std::move(*number) : v;
}

std::optional<c10::IValue> findDefaultValue(const Graph& g, ValueId input) {
  const Argument* literal = findDefault(g, input);
  if (!literal) return std::nullopt;
  auto value = toIValue(*literal, torchType(g.value(input).type).get());
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

Result<std::optional<TensorSet>> boundInputs(const Graph& g, const c10::IValue& v) {
  Binder binder(g);
  std::string why;
  for (const Call& call : callsOf(v)) {
    if (auto values = binder.bind(call)) return std::optional(tensorSet(std::move(*values)));
    if (why.empty()) why = binder.why();
  }
  const size_t entries = isSequence(v) ? itemsOf(v).size() : v.isGenericDict() ? v.toGenericDict().size() : 1;
  bool isFlat = true;
  if (isSequence(v))
    for (const c10::IValue& item : itemsOf(v)) isFlat = isFlat && !isContainer(item);
  if (!g.calling || (isFlat && entries == g.inputs().size())) return std::optional<TensorSet>();
  return badInput(
      fmt::format("these are not the arguments of the model, which is called as {}: {}", binder.signature(), why));
}

}  // namespace graft
