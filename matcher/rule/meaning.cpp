#include "matcher/rule/meaning.h"

#include <algorithm>
#include <array>

#include "core/ir/operators/operator_facts.h"
#include "matcher/rule/expression.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"

namespace graft {
namespace {

constexpr int deepest = 40;

std::optional<Argument> meantBy(const Graph&, const Argument&, int depth);

Expression literal(Argument a) {
  Expression e;
  e.literal = std::move(a);
  return e;
}

std::optional<Argument> calculated(Expression e) {
  auto value = evaluate(e, {});
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

std::optional<Argument> listOfSizes(const Graph& g, ValueId v) {
  const auto rank = knownRank(g, v);
  if (!rank) return std::nullopt;
  std::vector<Argument> sizes;
  for (int64_t i = 0; i < *rank; ++i) {
    const auto size = sizeMeaning(g, v, i);
    if (!size) return std::nullopt;
    sizes.push_back(size->argument());
  }
  return Argument::list(std::move(sizes));
}

// What asks a tensor for a property of its type.
std::optional<Argument> property(const Graph& g, std::string_view base, const Node& n) {
  if (n.args.empty() || !n.args[0].isValue()) return std::nullopt;
  const ValueId v = n.args[0].valueId();
  const Type& type = g.value(v).type;
  if (!type.isTensor()) return std::nullopt;
  const TensorInfo& info = type.tensorInfo;
  if (base == "dtype") return info.dtype ? std::optional(Argument(*info.dtype)) : std::nullopt;
  if (base == "device") return info.device.empty() ? std::nullopt : std::optional(Argument(DeviceName{info.device}));
  if (base == "dim") {
    const auto rank = knownRank(g, v);
    return rank ? std::optional(Argument(*rank)) : std::nullopt;
  }
  if (base == "size" && n.args.size() == 1) return listOfSizes(g, v);
  if (base == "len") {
    const auto size = sizeMeaning(g, v, 0);
    return size ? std::optional(size->argument()) : std::nullopt;
  }
  if (base == "numel" || base == "sym_numel") {
    const auto sizes = listOfSizes(g, v);
    if (!sizes) return std::nullopt;
    Expression product;
    product.kind = Expression::Kind::Call;
    product.name = "prod";
    product.operands = {literal(*sizes)};
    return calculated(std::move(product));
  }
  return std::nullopt;
}

std::optional<Argument> binary(std::string_view sign, const Argument& a, const Argument& b) {
  Expression e;
  e.kind = Expression::Kind::Binary;
  e.name = sign;
  e.operands = {literal(a), literal(b)};
  return calculated(std::move(e));
}

std::optional<Argument> slice(const std::vector<Argument>& a) {
  if (a.size() != 4) return std::nullopt;
  Expression bounds, e;
  bounds.kind = Expression::Kind::Slice;
  for (size_t i = 1; i < 4; ++i) bounds.operands.push_back(literal(a[i]));
  e.kind = Expression::Kind::Subscript;
  e.operands = {literal(a[0]), std::move(bounds)};
  return calculated(std::move(e));
}

std::optional<Argument> arithmetic(const Graph& g, std::string_view base, const Node& n, int depth) {
  std::vector<Argument> a;
  for (const Argument& given : n.args) {
    auto known = given.isNone() ? std::optional(given) : meantBy(g, given, depth + 1);
    if (!known) return std::nullopt;
    a.push_back(std::move(*known));
  }
  const bool identity = base == "NumToTensor" || base == "ScalarImplicit" || base == "IntImplicit" ||
                        base == "FloatImplicit" || base == "item" || base == "detach";
  if (identity && !a.empty()) return a[0];
  if (base == "slice") return slice(a);
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> signs{{{"add", "+"},
                                                                                        {"sub", "-"},
                                                                                        {"mul", "*"},
                                                                                        {"div", "/"},
                                                                                        {"truediv", "/"},
                                                                                        {"pow", "**"},
                                                                                        {"floordiv", "//"},
                                                                                        {"floor_divide", "//"},
                                                                                        {"remainder", "%"},
                                                                                        {"mod", "%"},
                                                                                        {"Float", "float"},
                                                                                        {"Int", "int"},
                                                                                        {"sqrt", "sqrt"},
                                                                                        {"rsqrt", "rsqrt"}}};
  const auto sign = std::find_if(signs.begin(), signs.end(), [&](const auto& s) { return s.first == base; });
  if (sign == signs.end()) {
    if (base == "neg" && a.size() == 1) return binary("-", Argument(int64_t{0}), a[0]);
    if (base == "reciprocal" && a.size() == 1) return binary("/", Argument(1.0), a[0]);
    return std::nullopt;
  }
  if (sign->second.size() > 2) {
    if (a.size() != 1) return std::nullopt;
    Expression call;
    call.kind = Expression::Kind::Call;
    call.name = sign->second;
    call.operands = {literal(a[0])};
    return calculated(std::move(call));
  }
  // add and sub of tensors have a factor.
  if (a.size() == 3 && !((base == "add" || base == "sub") && a[2].number() == 1.0)) return std::nullopt;
  if (a.size() != 2 && a.size() != 3) return std::nullopt;
  return binary(sign->second, a[0], a[1]);
}

// Whether the value is a number or a list of them, or a tensor that holds a number which was never one of a tensor's
// elements.
std::optional<Argument> meantBy(const Graph& g, const Argument& a, int depth) {
  if (const auto* items = a.items()) {
    std::vector<Argument> known;
    for (const Argument& i : *items) {
      auto item = meantBy(g, i, depth + 1);
      if (!item) return std::nullopt;
      known.push_back(std::move(*item));
    }
    return a.isTuple() ? Argument::tuple(std::move(known)) : Argument::list(std::move(known));
  }
  if (!a.isValue()) return a.number() || a.isNone() || a.as<SymbolicInt>() ? std::optional(a) : std::nullopt;
  if (depth > deepest) return std::nullopt;
  const Value& v = g.value(a.valueId());
  if (!v.producer || (v.type.isTensor() && v.type.tensorInfo.rank() != 0)) return std::nullopt;
  const Node& n = g.node(v.producer);
  if (n.outputs.size() != 1 || n.op->writes()) return std::nullopt;
  if (const auto size = integerMeaning(g, a); size && v.type.kind == Type::Kind::Int)
    if (n.op->baseName() == "size" || size->number()) return size->argument();
  if (auto known = property(g, n.op->baseName(), n)) return known;
  return arithmetic(g, n.op->baseName(), n, depth);
}

}  // namespace

std::optional<Argument> meaningOf(const Graph& g, const Argument& a) {
  if (!a.isValue()) return std::nullopt;
  return meantBy(g, a, 0);
}

std::optional<Argument> meaningOfNone(const Graph& g, const Node& n, std::string_view parameter) {
  if (n.op->facts->family != OperatorFamily::Factory) return std::nullopt;
  if (parameter == "layout") return Argument(Named{"torch.strided"});
  if (parameter != "dtype") return std::nullopt;
  if (n.op->facts->dtype == DTypeRule::DefaultFloat) return Argument(DType::Float32);
  if (n.op->facts->dtype == DTypeRule::First && !n.args.empty() && n.args[0].isValue()) {
    const auto own = g.value(n.args[0].valueId()).type.tensorInfo.dtype;
    return own ? std::optional(Argument(*own)) : std::nullopt;
  }
  const std::string_view base = n.op->baseName();
  if (base == "full" && n.args.size() > 1) {
    if (n.args[1].as<bool>()) return Argument(DType::Bool);
    if (n.args[1].as<int64_t>()) return Argument(DType::Int64);
    if (n.args[1].as<double>()) return Argument(DType::Float32);
  }
  if (base == "arange") {
    const auto isWhole = [&](const Argument& a) {
      return a.as<int64_t>() || (a.isValue() && g.value(a.valueId()).type.kind == Type::Kind::Int);
    };
    const size_t numbers = n.op->name == "aten.arange.default" ? 1 : n.op->name == "aten.arange.start" ? 2 : 3;
    bool whole = true, fraction = false;
    for (size_t i = 0; i < std::min(numbers, n.args.size()); ++i) {
      whole = whole && isWhole(n.args[i]);
      fraction = fraction || n.args[i].as<double>();
    }
    if (whole) return Argument(DType::Int64);
    if (fraction) return Argument(DType::Float32);
  }
  return std::nullopt;
}

}  // namespace graft
