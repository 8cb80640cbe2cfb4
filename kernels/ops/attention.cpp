// graft::attention
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/support.h"
#include "kernels/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "attention",
    "attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, *, float? scale=None, bool causal=False) -> Tensor",
    "softmax(q k^T * scale + mask) v. q is [batch, heads, length, head size]; k and v may have fewer heads (grouped-query) "
    "and another length; or all three are [batch, length, head size]. The mask broadcasts to [batch, heads, length, keys] "
    "and is added, or, where bool, false masks out. causal lets query i see keys 0 to i. The scale defaults to "
    "1/sqrt(head size). A query that sees no key gives zeros. The output's memory is [batch, length, heads, head size], so "
    "that transpose(1, 2).reshape(...) is free.",
    "head size contiguous in memory; other strides are free"};

// 3-D inputs are one head each.
at::Tensor withHeads(const at::Tensor& tensor) { return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor; }

OptionalTensor maskWithHeads(const OptionalTensor& mask, const at::Tensor& q) {
  if (!given(mask)) return {};
  return q.dim() == 3 && mask->dim() == 3 ? OptionalTensor(mask->unsqueeze(1)) : mask;
}

at::Tensor innermost(const at::Tensor& tensor) { return tensor.stride(-1) == 1 ? tensor : tensor.contiguous(); }

double scaleOf(std::optional<double> scale, const at::Tensor& q) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// [batch, kv heads, ...] to [batch, heads, ...], each head repeated.
at::Tensor repeated(const at::Tensor& tensor, const at::Tensor& q) {
  const c10::SymInt heads = q.sym_size(1), kvHeads = tensor.sym_size(1);
  if (heads == kvHeads) return tensor;
  return tensor.unsqueeze(2)
      .expand_symint({tensor.sym_size(0), kvHeads, heads / kvHeads, tensor.sym_size(2), tensor.sym_size(3)})
      .reshape_symint({tensor.sym_size(0), heads, tensor.sym_size(2), tensor.sym_size(3)});
}

// The values in the output's memory layout, [batch, length, heads, head size].
at::Tensor laidOut(const at::Tensor& values, const at::Tensor& q3) {
  at::Tensor out = at::empty_symint({values.sym_size(0), values.sym_size(2), values.sym_size(1), values.sym_size(3)},
                                    q3.options());
  out.copy_(values.transpose(1, 2));
  return q3.dim() == 3 ? out.squeeze(2) : out.transpose(1, 2);
}

at::Tensor causalMask(const at::Tensor& q, const at::Tensor& k) {
  const at::TensorOptions options = q.options().dtype(at::kLong);
  return at::arange(k.sym_size(2), options).unsqueeze(0) <= at::arange(q.sym_size(2), options).unsqueeze(1);
}

at::Tensor composite(const at::Tensor& q3, const at::Tensor& k3, const at::Tensor& v3, const OptionalTensor& mask3,
                     std::optional<double> scale, bool causal) {
  checkAttention(q3, k3, v3, mask3);
  const at::ScalarType compute = computeType(q3);
  const at::Tensor q = withHeads(q3).to(compute);
  const at::Tensor k = repeated(withHeads(k3).to(compute), q);
  const at::Tensor v = repeated(withHeads(v3).to(compute), q);
  const OptionalTensor mask = maskWithHeads(mask3, q3);
  const double lowest = -std::numeric_limits<double>::infinity();
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scaleOf(scale, q);
  if (given(mask)) {
    scores = mask->scalar_type() == at::kBool ? scores.masked_fill(mask->logical_not(), lowest)
                                              : scores + mask->to(compute);
  }
  if (causal) scores = scores.masked_fill(causalMask(q, k).logical_not(), lowest);
  const at::Tensor unseen = (scores == lowest).all(-1, /*keepdim=*/true);
  const at::Tensor weights = at::softmax(scores.masked_fill(unseen, 0.0), -1).masked_fill(unseen, 0.0);
  return laidOut(at::matmul(weights, v), q3);
}

at::Tensor cpu(const at::Tensor& q3, const at::Tensor& k3, const at::Tensor& v3, const OptionalTensor& mask3,
               std::optional<double> scale, bool causal) {
  if (q3.scalar_type() != at::kFloat) return composite(q3, k3, v3, mask3, scale, causal);
  checkAttention(q3, k3, v3, mask3);
  const at::Tensor q = innermost(withHeads(q3));
  const at::Tensor k = innermost(repeated(withHeads(k3), q));
  const at::Tensor v = innermost(repeated(withHeads(v3), q));
  if (q.numel() == 0 || k.numel() == 0 || q.size(3) != v.size(3) || (causal && given(mask3))) {
    return composite(q3, k3, v3, mask3, scale, causal);
  }
  OptionalTensor mask = maskWithHeads(mask3, q3);
  if (given(mask)) {
    if (mask->scalar_type() == at::kBool) {
      const at::Tensor zero = at::zeros({}, q.options());
      mask = at::where(*mask, zero, at::full({}, -std::numeric_limits<double>::infinity(), q.options()));
    } else {
      mask = mask->to(q.scalar_type());
    }
    if (mask->dim() != 2) mask = mask->expand({q.size(0), q.size(1), q.size(2), k.size(2)});
  }
  return laidOut(
      std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, mask, scaleOf(scale, q))), q3);
}

at::Tensor meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                std::optional<double> scale, bool causal) {
  checkAttention(q, k, v, mask);
  if (q.dim() == 3) return at::empty_symint({q.sym_size(0), q.sym_size(1), v.sym_size(2)}, q.options());
  return at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1), v.sym_size(3)}, q.options()).transpose(1, 2);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite>(m, cpu, meta); }

}  // namespace graft::ops
