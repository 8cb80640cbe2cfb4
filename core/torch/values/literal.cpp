#include "core/torch/literal.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/contiguous_ops.h>
#include <fmt/format.h>

#include <cmath>

#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

std::string pythonFloat(double x) {
  if (std::isnan(x)) return "float('nan')";
  if (std::isinf(x)) return x > 0 ? "float('inf')" : "float('-inf')";
  std::string out = fmt::format("{}", x);  // the shortest that reads back as the same
  return out.find_first_of(".e") == out.npos ? out + ".0" : out;
}

// The elements in nested lists, as the dimensions from `dim` on have them.
template <class Element>
std::string nested(const at::Tensor& t, int64_t dim, int64_t& at, const Element& element) {
  if (dim == t.dim()) return element(at++);
  std::string out = "[";
  for (int64_t i = 0; i < t.size(dim); ++i) out += (i ? ", " : "") + nested(t, dim + 1, at, element);
  return out + "]";
}

}  // namespace

std::optional<std::string> tensorLiteral(const Value& weight) {
  const at::Tensor given = weightTensor(weight);
  if (!given.defined() || given.numel() > 16384 || given.layout() != c10::kStrided || !given.device().is_cpu())
    return std::nullopt;
  const auto dtype = graftDType(given.scalar_type());
  int64_t at = 0;
  std::string items;
  if (given.is_floating_point()) {
    const at::Tensor t = given.to(c10::ScalarType::Double).contiguous();
    items = nested(t, 0, at, [&](int64_t i) { return pythonFloat(t.const_data_ptr<double>()[i]); });
  } else if (given.scalar_type() == c10::ScalarType::Bool) {
    const at::Tensor t = given.contiguous();
    items = nested(t, 0, at, [&](int64_t i) { return t.const_data_ptr<bool>()[i] ? "True" : "False"; });
  } else if (c10::isIntegralType(given.scalar_type(), false)) {
    const at::Tensor t = given.to(c10::ScalarType::Long).contiguous();
    items = nested(t, 0, at, [&](int64_t i) { return std::to_string(t.const_data_ptr<int64_t>()[i]); });
  } else {
    return std::nullopt;
  }
  return dtype ? std::optional(fmt::format("torch.tensor({}, dtype=torch.{})", items, dtypeName(*dtype)))
               : std::nullopt;
}

}  // namespace graft
