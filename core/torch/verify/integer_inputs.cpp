// Other integers for a verification. An integer tensor may hold indices into a table, and other integers would lie
// outside of it. So only tensors that both sides merely calculate with are changed, and integers that the model takes
// as such, whose effect the model itself shows.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/torch/values/values.h"
#include "core/torch/verify/check_inputs.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

constexpr int64_t fewElements = 8;  // lengths and other sizes in disguise

bool firstIsNumber(std::string_view base) {
  return base == "pow" || base == "__lshift__" || base == "__rshift__" || base == "bitwise_left_shift" ||
         base == "bitwise_right_shift";
}

/// Whether nothing that is computed from the value as an integer is looked up by, or asked for as a size.
bool onlyCalculated(const Graph& g, ValueId from) {
  std::vector<ValueId> work{from};
  for (size_t i = 0; i < work.size(); ++i) {
    for (NodeId user : g.value(work[i]).users) {
      const Node& n = g.node(user);
      const std::string_view base = n.op->baseName();
      const bool isFirst = !n.args.empty() && n.args[0] == Argument(work[i]);
      if (!n.op->name.starts_with("aten.") || n.op->writes()) return false;
      if (!n.op->is(OperatorFact::AnyIntegers) && !(firstIsNumber(base) && isFirst)) return false;
      for (ValueId out : n.outputs) {
        const Type& type = g.value(out).type;
        if (!type.isTensor()) continue;  // its sizes, which stay
        const auto& dtype = type.tensorInfo.dtype;
        if (dtype && (isFloatingPoint(*dtype) || *dtype == DType::Bool)) continue;
        if (std::find(work.begin(), work.end(), out) == work.end()) work.push_back(out);
      }
    }
  }
  return true;
}

/// Zeros and ones, as masks are.
bool saysYesOrNo(const at::Tensor& t) {
  const at::Tensor c = t.cpu().to(at::kLong);
  return c.min().item<int64_t>() >= 0 && c.max().item<int64_t>() <= 1;
}

int64_t largest(at::ScalarType t) {
  switch (t) {
    case at::kByte:
    case at::kChar:
      return std::numeric_limits<int8_t>::max() / 4;
    case at::kShort:
      return std::numeric_limits<int16_t>::max() / 4;
    default:
      return int64_t{1} << 20;
  }
}

/// Of the signs that the given ones have, up to four times as large; without 0 where it might divide.
at::Tensor otherNumbers(const at::Tensor& t, bool withZero, at::Generator& g) {
  const at::Tensor given = t.cpu().to(at::kLong);
  const int64_t low = given.min().item<int64_t>(), high = given.max().item<int64_t>();
  const int64_t edge = std::min(largest(t.scalar_type()), 4 * std::max(std::abs(low), std::abs(high)) + 13);
  at::Tensor x = at::randint(low < 0 ? -edge : 0, edge + 1, t.sizes(), g, at::kLong);
  if (!withZero) x = x.masked_fill(x.eq(0), 3);
  return x.to(t.scalar_type()).to(t.device());
}

}  // namespace

std::vector<bool> plainIntegers(const Graph& a, const Graph& b, const TensorSet& given) {
  const auto& values = valuesOf(given);
  std::vector<bool> out(values.size(), false);
  if (a.inputs().size() != values.size() || b.inputs().size() != values.size()) return out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].isTensor()) continue;
    const at::Tensor& t = values[i].toTensor();
    if (!c10::isIntegralType(t.scalar_type(), false) || t.numel() < fewElements || saysYesOrNo(t)) continue;
    out[i] = onlyCalculated(a, a.inputs()[i]) && onlyCalculated(b, b.inputs()[i]);
  }
  return out;
}

std::vector<InputSet> otherNumbersFor(const TensorSet& given, const std::vector<bool>& which) {
  std::vector<InputSet> out;
  if (std::none_of(which.begin(), which.end(), [](bool w) { return w; })) return out;
  for (const bool withZero : {true, false}) {
    out.push_back({withZero ? "other integers" : "other integers but 0", [&given, which, withZero] {
                     auto generator = at::detail::createCPUGenerator(verificationSeed + (withZero ? 11 : 12));
                     std::vector<c10::IValue> values = valuesOf(copyOf(given));
                     for (size_t i = 0; i < values.size(); ++i)
                       if (which[i]) values[i] = otherNumbers(values[i].toTensor(), withZero, generator);
                     TensorSet result = tensorSet(std::move(values));
                     if (given.impl) result.impl->names = given.impl->names;
                     return result;
                   }});
  }
  return out;
}

std::vector<InputSet> otherIntegerInputs(const TensorSet& given) {
  std::vector<InputSet> out;
  const auto& values = valuesOf(given);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].isInt()) continue;
    const int64_t now = values[i].toInt();
    std::vector<int64_t> others{0, 1, now + (now % 2 == 0 ? 1 : 2), 2 * std::abs(now) + 3};
    if (now < 0) others.push_back(-now);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    std::erase(others, now);
    const std::string name = given.impl && i < given.impl->names.size() && !given.impl->names[i].empty()
                                 ? given.impl->names[i]
                                 : fmt::format("input {}", i);
    for (const int64_t n : others)
      out.push_back({fmt::format("another integer, {} = {}", name, n), [&given, i, n] {
                       std::vector<c10::IValue> changed = valuesOf(copyOf(given));
                       changed[i] = n;
                       TensorSet result = tensorSet(std::move(changed));
                       if (given.impl) result.impl->names = given.impl->names;
                       return result;
                     }});
  }
  return out;
}

}  // namespace graft
