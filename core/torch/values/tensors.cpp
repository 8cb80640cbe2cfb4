#include "core/torch/tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/ir/size_expression.h"
#include "core/torch/values/call_arguments.h"
#include "core/torch/values/device.h"
#include "core/torch/values/values.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

/// "randint(0,30522)" taken apart.
struct Filling {
  std::string kind;
  std::vector<double> numbers;
};

std::optional<Filling> parseFilling(std::string_view text) {
  Filling out;
  const size_t open = text.find('(');
  out.kind = std::string(text.substr(0, open));
  if (open == text.npos) return out;
  if (text.back() != ')') return std::nullopt;
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    double x = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    out.numbers.push_back(x);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}

Result<at::Tensor> fill(const std::vector<int64_t>& sizes, DType dtype, const Filling& f, at::Generator& generator) {
  const auto type = torchDType(dtype);
  auto count = [&](size_t n) { return f.numbers.size() == n; };
  // Half and bfloat16 are drawn in float and rounded, so that every dtype gets the same numbers for a seed.
  if (f.kind == "randn" && count(0)) return at::randn(sizes, generator, at::kFloat).to(type);
  if (f.kind == "rand" && count(0)) return at::rand(sizes, generator, at::kFloat).to(type);
  if (f.kind == "randint" && count(2)) {
    const auto low = static_cast<int64_t>(f.numbers[0]), high = static_cast<int64_t>(f.numbers[1]);
    if (low >= high)
      return badInput(fmt::format("randint({},{}) has no number to draw; the end is exclusive", low, high));
    return at::randint(low, high, sizes, generator, at::kLong).to(type);
  }
  if (f.kind == "zeros" && count(0)) return at::full(sizes, 0, type);
  if (f.kind == "ones" && count(0)) return at::full(sizes, 1, type);
  if (f.kind == "full" && count(1)) return at::full(sizes, f.numbers[0], type);
  if (f.kind == "arange" && count(0)) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return at::arange(n, at::kLong).reshape(sizes).to(type);
  }
  return badInput(fmt::format(
      "'{}' is no way to fill a tensor; use randn, rand, randint(LOW,HIGH), zeros, ones, full(X) or arange", f.kind));
}

/// How many rows the tables have that `v` indexes, looking through views: what a random index must stay below.
std::optional<int64_t> indexBound(const Graph& g, ValueId v, int depth = 0) {
  std::optional<int64_t> least;
  if (depth > 8) return least;
  for (NodeId user : g.value(v).users) {
    const Node& n = g.node(user);
    std::optional<int64_t> bound;
    if (n.op->name == "aten.embedding.default" && n.args.size() > 1 && n.args[0].isValue() &&
        n.args[1] == Argument(v)) {
      const auto& table = g.value(n.args[0].valueId()).type.tensorInfo.shape;
      if (table && !table->empty() && table->front().isStatic()) bound = table->front().size;
    } else if (n.op->hasSchema && (n.op->aliases() || n.op->facts->family == OperatorFamily::Cast) &&
               n.outputs.size() == 1 && !n.args.empty() && n.args[0] == Argument(v)) {
      bound = indexBound(g, n.outputs[0], depth + 1);
    }
    if (bound && (!least || *bound < *least)) least = bound;
  }
  return least;
}

Filling usualFilling(const Graph& g, ValueId input, DType dtype) {
  if (isFloatingPoint(dtype) || dtype == DType::Complex64) return {"randn", {}};
  if (g.value(input).name.find("mask") != std::string::npos) return {"ones", {}};
  return {"randint", {0, static_cast<double>(dtype == DType::Bool ? 2 : indexBound(g, input).value_or(2))}};
}

/// "3", "0.5", "true" and "None": an input that is no tensor.
std::optional<c10::IValue> parseNumber(std::string_view text) {
  if (text == "true" || text == "True") return c10::IValue(true);
  if (text == "false" || text == "False") return c10::IValue(false);
  if (text == "None") return c10::IValue();
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, whole); error == std::errc() && at == end)
    return c10::IValue(whole);
  double real = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, real); error == std::errc() && at == end)
    return c10::IValue(real);
  return std::nullopt;
}

/// The number as the input's type has it; nothing where it does not fit. Of a type that nobody told, as it is.
std::optional<c10::IValue> fitting(c10::IValue number, const Type& wanted) {
  const bool isOptional = wanted.kind == Type::Kind::Optional;
  const Type type = isOptional ? Type(wanted.element()) : wanted;
  if (number.isNone()) return isOptional || type.kind == Type::Kind::Any ? std::optional(number) : std::nullopt;
  switch (type.kind) {
    case Type::Kind::Any:
      return number;
    case Type::Kind::Int:
      return number.isInt() ? std::optional(number) : std::nullopt;
    case Type::Kind::Bool:
      return number.isBool() ? std::optional(number) : std::nullopt;
    case Type::Kind::Float:
      return number.isBool() ? std::nullopt : std::optional(c10::IValue(number.toScalar().toDouble()));
    case Type::Kind::Number:
      return number.isBool() ? std::nullopt : std::optional(number);
    default:
      return std::nullopt;
  }
}

/// Each input's specification, "" where none was given. "n=3" is that of the input n, the others are in order.
Result<std::vector<std::string_view>> byInput(const Graph& g, const std::vector<std::string>& specs) {
  std::vector<std::string_view> out(g.inputs().size());
  std::vector<bool> isNamed(out.size());
  std::vector<std::string_view> inOrder;
  std::vector<std::string> names;
  for (const ValueId v : g.inputs()) names.push_back(g.value(v).name);
  for (const std::string& spec : specs) {
    const size_t equals = spec.find('=');
    if (equals == std::string::npos) {
      inOrder.emplace_back(spec);
      continue;
    }
    const std::string name = spec.substr(0, equals);
    const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size())
      return badInput(fmt::format("the model has no input '{}'; it has {}", name, fmt::join(names, ", ")));
    if (isNamed[at]) return badInput(fmt::format("the input '{}' is given twice", name));
    isNamed[at] = true;
    out[at] = std::string_view(spec).substr(equals + 1);
  }
  const size_t open = static_cast<size_t>(std::count(isNamed.begin(), isNamed.end(), false));
  const bool anyNamed = open < out.size();
  const auto mustGive = [&](size_t i) { return !isNamed[i] && !findDefaultValue(g, g.inputs()[i]); };
  size_t needed = out.size();  // of those in order
  while (needed > 0 && !mustGive(needed - 1)) --needed;
  if (!specs.empty() && (inOrder.size() > open || (!anyNamed && inOrder.size() < needed)))
    return badInput(
        fmt::format("{} input specification{} for a model that takes {}: {}. NAME=SPEC is that of one input",
                    specs.size(), specs.size() == 1 ? "" : "s", out.size(), fmt::join(names, ", ")));
  auto next = inOrder.begin();
  for (size_t i = 0; i < out.size() && next != inOrder.end(); ++i)
    if (!isNamed[i]) out[i] = *next++;
  return out;
}

/// The usual size, or the nearest one that the symbol's range holds.
int64_t usualSize(const Graph& g, std::string_view symbol, int64_t usual) {
  const Symbol* s = g.findSymbol(symbol);
  if (!s) return usual;
  return s->min && *s->min > usual ? *s->min : s->max && *s->max < usual ? *s->max : usual;
}

/// Of a dimension that one example does not settle: what its expression makes of its symbols' usual sizes.
int64_t usualSize(const Graph& g, const Dim& d, int64_t usual) {
  const auto expression = SizeExpression::parse(d.symbol);
  const auto size =
      expression ? expression->evaluate([&](std::string_view s) { return std::optional(usualSize(g, s, usual)); })
                 : std::nullopt;
  return size && *size >= 0 ? *size : usual;
}

Result<c10::IValue> makeInput(const Graph& g, size_t index, std::string_view spec, at::Generator& generator,
                              int64_t symbolDefault) {
  const Value& input = g.value(g.inputs()[index]);
  Type type = input.type;
  std::string_view rest = spec;
  if (spec.empty())
    if (auto value = findDefaultValue(g, input.id)) return std::move(*value);
  if (spec == "None" && type.kind == Type::Kind::Optional) return c10::IValue();
  if (const auto number = spec.empty() ? std::nullopt : parseNumber(spec)) {
    auto fits = fitting(*number, type);
    if (!fits) return badInput(fmt::format("input {} '{}' is {}, not {}", index, input.name, toString(type), spec));
    return std::move(*fits);
  }
  if (!spec.empty()) {
    const auto given = consumeType(rest);
    if (!given || !given->isTensor() || (!rest.empty() && rest.front() != ':'))
      return badInput(fmt::format(
          "'{}' is no input specification; write it like \"f16[1,128]:randn\", or a number like \"3\"", spec));
    type = *given;
    if (!rest.empty()) rest.remove_prefix(1);
  }
  while (type.kind == Type::Kind::Optional) type = Type(type.element());
  if (type.kind == Type::Kind::Int) return c10::IValue(usualSize(g, input.name, symbolDefault));
  if (type.kind == Type::Kind::Float) return c10::IValue(1.0);
  if (type.kind == Type::Kind::Bool) return c10::IValue(true);
  const TensorInfo& info = type.tensorInfo;
  if (!type.isTensor() || !info.dtype || !info.shape)
    return badInput(
        fmt::format("input {} '{}' is {}: its dtype and shape are not known, say them like \"f32[1,128]:randn\"", index,
                    input.name, toString(type)));
  std::vector<int64_t> sizes;
  for (const Dim& d : *info.shape) sizes.push_back(d.isStatic() ? d.size : usualSize(g, d, symbolDefault));
  const auto filling = rest.empty() ? usualFilling(g, input.id, *info.dtype) : parseFilling(rest);
  if (!filling) return badInput(fmt::format("'{}' is no way to fill a tensor", rest));
  auto t = fill(sizes, *info.dtype, *filling, generator);
  if (!t) return t.error();
  return asNumber(c10::IValue(std::move(*t)), input.type);
}

c10::IValue converted(const c10::IValue& v, c10::Device device, std::optional<c10::ScalarType> dtype) {
  return mapTensors(v, [&](const at::Tensor& t) {
    return (dtype && c10::isFloatingType(t.scalar_type()) ? t.to(*dtype) : t).to(device);
  });
}

}  // namespace

size_t TensorSet::size() const { return impl ? impl->values.size() : 0; }

std::vector<std::string> TensorSet::describe() const {
  std::vector<std::string> out;
  for (const c10::IValue& v : valuesOf(*this)) out.push_back(graft::describe(v));
  return out;
}

Result<TensorSet> makeInputs(const Graph& g, const std::vector<std::string>& specs, uint64_t seed,
                             int64_t symbolDefault) {
  auto given = byInput(g, specs);
  if (!given) return given.error();
  try {
    auto generator = at::detail::createCPUGenerator(seed);
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      auto v = makeInput(g, i, (*given)[i], generator, symbolDefault);
      if (!v) return v.error();
      values.push_back(std::move(*v));
    }
    return tensorSet(std::move(values));
  } catch (const std::exception& e) {
    return badInput(fmt::format("the inputs cannot be made: {}", shortMessage(e)));
  }
}

Result<TensorSet> convert(const TensorSet& set, const std::string& device, std::optional<DType> dtype) {
  auto to = requireDevice(device);
  if (!to) return to.error();
  try {
    std::vector<c10::IValue> out;
    for (const c10::IValue& v : valuesOf(set))
      out.push_back(converted(v, *to, dtype ? std::optional(torchDType(*dtype)) : std::nullopt));
    TensorSet result = tensorSet(std::move(out));
    if (set.impl) result.impl->names = set.impl->names;
    return result;
  } catch (const std::exception& e) {
    return badInput(fmt::format("the tensors cannot be moved to {}: {}", device, shortMessage(e)));
  }
}

}  // namespace graft
