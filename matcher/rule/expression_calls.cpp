#include "matcher/rule/expression_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/suggest.h"
#include "core/ir/operators/dtype_facts.h"
#include "matcher/rule/rank.h"
#include "matcher/rule/symbolic.h"

namespace graft {
namespace {

/// What torch.finfo and torch.iinfo say of a dtype; nothing where they say nothing.
std::optional<Argument> dtypeLimit(DType t, std::string_view what) {
  if (what == "bits") return Argument(static_cast<int64_t>(8 * dtypeSize(t)));
  struct Limits {
    DType dtype;
    double largest, eps, tiny;
  };
  static constexpr Limits floats[] = {{DType::Float16, 65504.0, 0x1p-10, 0x1p-14},
                                      {DType::BFloat16, 0x1.fep+127, 0x1p-7, 0x1p-126},
                                      {DType::Float8E4M3, 448.0, 0x1p-3, 0x1p-6},
                                      {DType::Float8E5M2, 57344.0, 0x1p-2, 0x1p-14},
                                      {DType::Float32, 0x1.fffffep+127, 0x1p-23, 0x1p-126},
                                      {DType::Float64, 0x1.fffffffffffffp+1023, 0x1p-52, 0x1p-1022}};
  for (const Limits& f : floats)
    if (f.dtype == t)
      return Argument(what == "max" ? f.largest : what == "min" ? -f.largest : what == "eps" ? f.eps : f.tiny);
  const bool isLargest = what == "max";
  if (!isLargest && what != "min") return std::nullopt;
  const auto of = [&](auto limits) { return Argument(static_cast<int64_t>(isLargest ? limits.max() : limits.min())); };
  if (t == DType::Int8) return of(std::numeric_limits<int8_t>());
  if (t == DType::UInt8) return of(std::numeric_limits<uint8_t>());
  if (t == DType::Int16) return of(std::numeric_limits<int16_t>());
  if (t == DType::Int32) return of(std::numeric_limits<int32_t>());
  if (t == DType::Int64) return of(std::numeric_limits<int64_t>());
  return std::nullopt;
}

/// The module an expression names, or nothing.
const ModuleCall* moduleOf(const Expression& e, const Environment& env) {
  if (e.kind != Expression::Kind::Name || !env.graph) return nullptr;
  const auto it = env.modules.find(e.name);
  return it == env.modules.end() ? nullptr : &env.graph->moduleCall(it->second);
}

/// What the module calculates with, linear.weight, layer_norm.eps: an argument of that name of one of its operators, or
/// a weight of its own. Nothing where it has none.
std::optional<Argument> heldBy(const ModuleCall& m, std::string_view name, const Graph& g) {
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (!g.isWithin(n.module, m.id)) continue;
    const Argument* a = n.findArgument(name);
    if (!a) continue;
    const bool isEmpty = a->items() && a->items()->empty();
    if (a->isValue() ? g.isWeight(a->valueId()) : !isEmpty && !a->holdsValue()) return *a;
  }
  if (const ValueId w = g.findWeight(m.path + "." + std::string(name))) return Argument(w);
  return std::nullopt;
}

Result<ValueId> tensorOperand(const Expression& e, const Argument& a, std::string_view what) {
  if (a.isValue()) return a.valueId();
  return expressionError(
      e, "`" + std::string(what) + "` is asked of tensors; `" + toString(e) + "` is " + argumentText(a));
}

Result<Argument> shapeOf(const Expression& e, const Environment& env, ValueId v) {
  const Graph& g = *env.graph;
  const auto rank = knownRank(g, v);
  if (!rank) {
    return expressionError(e, "the shape of `" + toString(e) + "` is not known; import the model with example inputs");
  }
  std::vector<Argument> dims;
  for (int64_t i = 0; i < *rank; ++i) {
    auto size = sizeIn(env, v, i);
    dims.push_back(size ? *size : Argument(SymbolicInt{"?"}));
  }
  return Argument::list(std::move(dims));
}

Result<Argument> product(const Expression& e, const std::vector<Argument>& items) {
  Polynomial all = Polynomial::constant(1);
  for (const Argument& i : items) {
    if (i.as<double>()) return expressionError(e, "a product of sizes needs integers");
    std::optional<Polynomial> p;
    if (const auto* n = i.as<int64_t>()) p = Polynomial::constant(*n);
    if (const auto* s = i.as<SymbolicInt>()) p = Polynomial::parse(s->expression);
    if (!p) return expressionError(e, "a product of sizes needs integers");
    all = all * *p;
  }
  return all.argument();
}

Result<Argument> tensorAttribute(const Expression& e, const Environment& env, ValueId v) {
  const Graph& g = *env.graph;
  const Value& value = g.value(v);
  const TensorInfo& info = value.type.tensorInfo;
  const Expression& of = e.operands[0];
  if (e.name == "shape") return shapeOf(of, env, v);
  if (e.name == "ndim") {
    if (auto r = knownRank(g, v)) return Argument(*r);
    return expressionError(e, "the rank of `" + toString(of) + "` is not known; import the model with example inputs");
  }
  if (e.name == "dtype") {
    if (info.dtype) return Argument(*info.dtype);
    return expressionError(e, "the dtype of `" + toString(of) + "` is not known; import the model with example inputs");
  }
  if (e.name == "device") {
    if (!info.device.empty()) return Argument(DeviceName{info.device});
    return expressionError(e, "the device of `" + toString(of) + "` is not known");
  }
  if (e.name == "is_cuda") return Argument(info.device.starts_with("cuda"));
  if (e.name == "name") return Argument(value.name);
  static const std::vector<std::string> known{"shape", "ndim", "dtype", "device", "is_cuda", "name"};
  const auto nearest = nearestName(e.name, known);
  return expressionError(
      e, "values have no `" + e.name + "`" +
             (nearest ? "; did you mean `" + *nearest + "`?" : "; they have shape, ndim, dtype, device"));
}

Result<Argument> extreme(const Expression& e, std::vector<Argument> items, bool largest) {
  if (items.size() == 1 && items[0].items()) items = std::vector<Argument>(*items[0].items());
  if (items.empty()) return expressionError(e, "`" + e.name + "` of nothing");
  const Argument* best = nullptr;
  for (const Argument& i : items) {
    if (!i.number()) return expressionError(e, "`" + e.name + "` needs known numbers, not " + argumentText(i));
    if (!best || (largest ? *i.number() > *best->number() : *i.number() < *best->number())) best = &i;
  }
  return *best;
}

Result<Argument> roundTo(const Expression& e, double x) {
  if (!(std::abs(x) < 9.2e18)) return expressionError(e, "`" + toString(e) + "` does not fit 64 bits");
  return Argument(static_cast<int64_t>(x));
}

/// Functions of numbers and lists: args are evaluated.
Result<Argument> plainCall(const Expression& e, std::string_view name, std::vector<Argument>& args) {
  const auto count = [&](size_t n) -> Status {
    if (args.size() == n) return done();
    return expressionError(e, "`" + e.name + "` takes " + std::to_string(n) + " argument" + (n == 1 ? "" : "s") +
                                  ", not " + std::to_string(args.size()));
  };
  if (name == "min" || name == "max") return extreme(e, std::move(args), name == "max");
  if (name == "pow" && args.size() == 2) {
    Expression power = e;
    power.kind = Expression::Kind::Binary;
    power.name = "**";
    power.operands.clear();
    for (const Argument& a : args) {
      Expression literal;
      literal.literal = a;
      power.operands.push_back(literal);
    }
    return evaluate(power, {});
  }
  if (Status s = count(1); !s) return s.error();
  const Argument& a = args[0];
  if (name == "len") {
    if (const auto* items = a.items()) return Argument(static_cast<int64_t>(items->size()));
    if (const auto* s = a.as<std::string>()) return Argument(static_cast<int64_t>(s->size()));
    return expressionError(e, "`len` needs a list or a shape, not " + argumentText(a));
  }
  if (name == "bool") {
    auto yes = truth(e.operands[0], a);
    if (!yes) return yes.error();
    return Argument(*yes);
  }
  if (name == "all" || name == "any" || name == "sum" || name == "prod" || name == "list" || name == "tuple" ||
      name == "sorted") {
    const auto* items = a.items();
    if (!items) return expressionError(e, "`" + e.name + "` needs a list, not " + argumentText(a));
    if (name == "list") return Argument::list(*items);
    if (name == "tuple") return Argument::tuple(*items);
    if (name == "prod") return product(e, *items);
    if (name == "sorted") {
      std::vector<Argument> out = *items;
      for (const Argument& i : out)
        if (!i.number()) return expressionError(e, "`sorted` needs known numbers");
      std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return *x.number() < *y.number(); });
      return Argument::list(std::move(out));
    }
    if (name == "sum") {
      double total = 0;
      bool whole = true;
      int64_t integer = 0;
      for (const Argument& i : *items) {
        if (!i.number()) return expressionError(e, "`sum` needs known numbers, not " + argumentText(i));
        whole = whole && !i.as<double>();
        if (whole) integer += static_cast<int64_t>(*i.number());
        total += *i.number();
      }
      return whole ? Argument(integer) : Argument(total);
    }
    for (const Argument& i : *items) {
      auto yes = truth(e, i);
      if (!yes) return yes.error();
      if (*yes == (name == "any")) return Argument(name == "any");
    }
    return Argument(name == "all");
  }
  if (name == "int" && a.as<SymbolicInt>()) return a;
  const auto x = a.number();
  if (!x) return expressionError(e, "`" + e.name + "` needs a known number, not " + argumentText(a));
  if (name == "float") return Argument(*x);
  if (name == "abs") return a.as<int64_t>() ? Argument(std::abs(*a.as<int64_t>())) : Argument(std::abs(*x));
  if (name == "int") return a.as<int64_t>() ? Result<Argument>(a) : roundTo(e, std::trunc(*x));
  if (name == "floor") return roundTo(e, std::floor(*x));
  if (name == "ceil") return roundTo(e, std::ceil(*x));
  if (name == "round") return roundTo(e, std::nearbyint(*x));
  if (name == "exp") return Argument(std::exp(*x));
  if (name == "tanh") return Argument(std::tanh(*x));
  if (name == "sqrt" || name == "log" || name == "log2" || name == "rsqrt") {
    if (*x < 0 || (*x == 0 && name != "sqrt")) return expressionError(e, "`" + toString(e) + "` is not a number");
    if (name == "sqrt") return Argument(std::sqrt(*x));
    if (name == "rsqrt") return Argument(1.0 / std::sqrt(*x));
    return Argument(name == "log" ? std::log(*x) : std::log2(*x));
  }
  static const std::vector<std::string> known{"len",   "min",   "max",  "abs",   "sqrt",       "int", "float",
                                              "bool",  "round", "sum",  "prod",  "all",        "any", "list",
                                              "tuple", "floor", "ceil", "users", "isinstance", "dim", "size",
                                              "numel", "log",   "log2", "exp",   "is_weight"};
  const auto nearest = nearestName(e.name, known);
  return expressionError(
      e, "`" + e.name + "` cannot be called here" + (nearest ? "; did you mean `" + *nearest + "`?" : ""));
}

template <class Float>
std::optional<Argument> floatLimit(std::string_view what) {
  using Limits = std::numeric_limits<Float>;
  if (what == "max") return Argument(static_cast<double>(Limits::max()));
  if (what == "min") return Argument(static_cast<double>(Limits::lowest()));
  if (what == "eps") return Argument(static_cast<double>(Limits::epsilon()));
  if (what == "tiny" || what == "smallest_normal") return Argument(static_cast<double>(Limits::min()));
  return std::nullopt;
}

template <class Whole>
std::optional<Argument> wholeLimit(std::string_view what) {
  using Limits = std::numeric_limits<Whole>;
  if (what == "max") return Argument(static_cast<int64_t>(Limits::max()));
  if (what == "min") return Argument(static_cast<int64_t>(Limits::min()));
  return std::nullopt;
}

/// torch.finfo(dtype).min and its like.
std::optional<Argument> limitOf(DType t, std::string_view what) {
  switch (t) {
    case DType::Float64:
      return floatLimit<double>(what);
    case DType::Float32:
      return floatLimit<float>(what);
    case DType::Float16:
      if (what == "max" || what == "min") return Argument(what == "max" ? 65504.0 : -65504.0);
      if (what == "eps") return Argument(0x1p-10);
      return what == "tiny" || what == "smallest_normal" ? std::optional(Argument(0x1p-14)) : std::nullopt;
    case DType::BFloat16:
      if (what == "max" || what == "min") return Argument((what == "max" ? 1 : -1) * (0x1p128 - 0x1p120));
      if (what == "eps") return Argument(0x1p-7);
      return what == "tiny" || what == "smallest_normal" ? std::optional(Argument(0x1p-126)) : std::nullopt;
    case DType::Int64:
      return wholeLimit<int64_t>(what);
    case DType::Int32:
      return wholeLimit<int32_t>(what);
    case DType::Int16:
      return wholeLimit<int16_t>(what);
    case DType::Int8:
      return wholeLimit<int8_t>(what);
    case DType::UInt8:
      return wholeLimit<uint8_t>(what);
    default:
      return std::nullopt;
  }
}

bool sameModuleType(const ModuleCall& m, const Expression& type) {
  std::string wanted;  // nn.Linear, torch.nn.Linear, "Linear"
  if (const auto* s = type.literal.as<std::string>())
    wanted = *s;
  else
    wanted = toString(type);
  const size_t dot = wanted.rfind('.');
  return m.type == wanted || m.shortType() == (dot == std::string::npos ? wanted : wanted.substr(dot + 1));
}

}  // namespace

std::optional<Argument> sizeIn(const Environment& env, ValueId v, int64_t dim) {
  if (!env.opaqueSizes || env.graph->isWeight(v))
    if (const auto size = knownSize(*env.graph, v, dim)) return Argument(*size);
  const auto size = sizeMeaning(*env.graph, v, dim);
  if (!size) return std::nullopt;
  if (!env.opaqueSizes || env.graph->isWeight(v)) return size->argument();
  if (const auto rank = knownRank(*env.graph, v); rank && dim < 0) dim += *rank;
  return Argument(SymbolicInt{"size(" + env.graph->value(v).name + "," + std::to_string(dim) + ")"});
}

Result<Argument> evaluateAttribute(const Expression& e, const Environment& env) {
  // The name of a module call means its result, too: `y.shape` after `y = call_module(...)`.
  const bool ofResult = e.name == "shape" || e.name == "dtype" || e.name == "device" || e.name == "ndim";
  if (const ModuleCall* m = ofResult ? nullptr : moduleOf(e.operands[0], env)) {
    if (e.name == "type") return Argument(m->type);
    if (e.name == "path") return Argument(m->path);
    if (e.name == "name") return Argument(std::string(m->lastName()));
    if (auto held = heldBy(*m, e.name, *env.graph)) return *held;
    std::vector<std::string> known;
    for (const auto& [name, value] : m->constructor) {
      if (name == e.name) return value;
      known.push_back(name);
    }
    const auto nearest = nearestName(e.name, known);
    return expressionError(e, "the module `" + m->path + "` (" + std::string(m->shortType()) +
                                  ") has no known value `" + e.name + "`" +
                                  (nearest ? "; did you mean `" + *nearest + "`?" : ""));
  }
  auto base = evaluate(e.operands[0], env);
  if (!base) return base;
  if (const auto* d = base->as<DeviceName>()) {
    if (e.name == "type") return Argument(d->name.substr(0, d->name.find(':')));
    if (e.name == "index") {
      const size_t colon = d->name.find(':');
      return Argument(int64_t{colon == std::string::npos ? 0 : std::atoll(d->name.c_str() + colon + 1)});
    }
  }
  if (const auto* t = base->as<DType>()) {
    if (e.name == "is_floating_point") return Argument(isFloatingPoint(*t));
    if (e.name == "min" || e.name == "max" || e.name == "eps" || e.name == "tiny" || e.name == "smallest_normal" ||
        e.name == "bits")
      if (const auto limit = dtypeLimit(*t, e.name)) return *limit;  // torch.finfo(x.dtype).min
    if (e.name == "itemsize") return Argument(static_cast<int64_t>(dtypeSize(*t)));
    if (const auto limit = limitOf(*t, e.name)) return *limit;
  }
  auto v = tensorOperand(e.operands[0], *base, e.name);
  if (!v) return v.error();
  return tensorAttribute(e, env, *v);
}

Result<Argument> evaluateCall(const Expression& e, const Environment& env) {
  const size_t dot = e.name.rfind('.');  // math.sqrt, torch.finfo …: the last part decides
  const std::string_view name =
      dot == std::string::npos ? std::string_view(e.name) : std::string_view(e.name).substr(dot + 1);
  if (name == "isinstance" && e.operands.size() == 2) {
    if (const ModuleCall* m = moduleOf(e.operands[0], env)) {
      const Expression& types = e.operands[1];
      if (types.kind == Expression::Kind::Tuple || types.kind == Expression::Kind::List) {
        return Argument(std::any_of(types.operands.begin(), types.operands.end(),
                                    [&](const Expression& t) { return sameModuleType(*m, t); }));
      }
      return Argument(sameModuleType(*m, types));
    }
    return expressionError(e, "`isinstance` is asked of modules that the pattern names");
  }
  if (name == "getattr" && e.operands.size() >= 2 && e.operands[1].literal.as<std::string>()) {
    Expression attribute = e;
    attribute.kind = Expression::Kind::Attribute;
    attribute.name = *e.operands[1].literal.as<std::string>();
    auto value = evaluateAttribute(attribute, env);
    return value || e.operands.size() < 3 ? value : evaluate(e.operands[2], env);
  }
  std::vector<Argument> args;
  for (const Expression& o : e.operands) {
    auto v = evaluate(o, env);
    if (!v) return v;
    args.push_back(std::move(*v));
  }
  if ((name == "finfo" || name == "iinfo") && args.size() == 1 && args[0].as<DType>()) return args[0];
  if (name == "len" && args.size() == 1 && args[0].isValue() && env.graph) {
    if (auto size = sizeIn(env, args[0].valueId(), 0)) return *size;
    return expressionError(e, "the length of `" + toString(e.operands[0]) + "` is not known");
  }
  static constexpr std::array<std::string_view, 10> tensorCalls{
      "dim",       "size",       "numel",         "users",        "is_floating_point",
      "is_weight", "ndimension", "is_contiguous", "element_size", "is_complex"};
  if (std::find(tensorCalls.begin(), tensorCalls.end(), name) == tensorCalls.end() || args.empty())
    return plainCall(e, name, args);
  auto v = tensorOperand(e.operands[0], args[0], name);
  if (!v) return v.error();
  const Graph& g = *env.graph;
  const TensorInfo& info = g.value(*v).type.tensorInfo;
  if (name == "users") return Argument(static_cast<int64_t>(g.value(*v).users.size()));
  if (name == "is_weight") return Argument(g.isWeight(*v));
  if (name == "is_floating_point" || name == "element_size" || name == "is_complex") {
    if (!info.dtype) return expressionError(e, "the dtype of `" + toString(e.operands[0]) + "` is not known");
    if (name == "element_size") return Argument(static_cast<int64_t>(dtypeSize(*info.dtype)));
    if (name == "is_complex") return Argument(isComplex(*info.dtype));
    return Argument(isFloatingPoint(*info.dtype));
  }
  if (name == "is_contiguous") return expressionError(e, "strides are not known here; `is_contiguous` cannot be asked");
  if (name == "dim" || name == "ndimension") {
    if (auto r = knownRank(g, *v)) return Argument(*r);
    return expressionError(
        e, "the rank of `" + toString(e.operands[0]) + "` is not known; import the model with example inputs");
  }
  if (name == "size" && args.size() == 2) {
    const auto* i = args[1].as<int64_t>();
    if (!i) return expressionError(e, "`size` needs a known dimension");
    if (auto size = sizeIn(env, *v, *i)) return *size;
    return expressionError(e, "`" + toString(e.operands[0]) + "` has no dimension " + std::to_string(*i));
  }
  auto shape = shapeOf(e.operands[0], env, *v);
  if (!shape || name == "size") return shape;
  return product(e, *shape->items());
}

}  // namespace graft
