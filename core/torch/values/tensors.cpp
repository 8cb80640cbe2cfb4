#include "core/torch/tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <charconv>

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

Result<c10::IValue> makeInput(const Graph& g, size_t index, std::string_view spec, at::Generator& generator,
                              int64_t symbolDefault) {
  const Value& input = g.value(g.inputs()[index]);
  Type type = input.type;
  std::string_view rest = spec;
  if (!spec.empty()) {
    const auto given = consumeType(rest);
    if (!given || !given->isTensor() || (!rest.empty() && rest.front() != ':'))
      return badInput(fmt::format("'{}' is no input specification; write it like \"f16[1,128]:randn\"", spec));
    type = *given;
    if (!rest.empty()) rest.remove_prefix(1);
  }
  while (type.kind == Type::Kind::Optional) type = Type(type.element());
  if (type.kind == Type::Kind::Int) return c10::IValue(symbolDefault);
  if (type.kind == Type::Kind::Float) return c10::IValue(1.0);
  if (type.kind == Type::Kind::Bool) return c10::IValue(true);
  const TensorInfo& info = type.tensorInfo;
  if (!type.isTensor() || !info.dtype || !info.shape)
    return badInput(
        fmt::format("input {} '{}' is {}: its dtype and shape are not known, say them like \"f32[1,128]:randn\"", index,
                    input.name, toString(type)));
  std::vector<int64_t> sizes;
  for (const Dim& d : *info.shape) sizes.push_back(d.isStatic() ? d.size : symbolDefault);
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
  if (!specs.empty() && specs.size() != g.inputs().size())
    return badInput(fmt::format("{} input specification{} for a model that takes {}", specs.size(),
                                specs.size() == 1 ? "" : "s", g.inputs().size()));
  try {
    auto generator = at::detail::createCPUGenerator(seed);
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      auto v =
          makeInput(g, i, specs.empty() ? std::string_view() : std::string_view(specs[i]), generator, symbolDefault);
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
