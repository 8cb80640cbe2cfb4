// The derivative of graft::attention: PyTorch's scaled_dot_product_attention, whose flash, cuDNN and memory-efficient
// kernels save the log of the softmax's sums and have backward kernels. It decides among them, as
// torch.nn.attention.sdpa_kernel tells it to.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

at::Tensor withHeads(const at::Tensor& tensor) { return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor; }

// [batch, kv heads, ...] to [batch, heads, ...], with each head repeated.
at::Tensor repeated(const at::Tensor& tensor, const at::Tensor& q) {
  const c10::SymInt heads = q.sym_size(1), kvHeads = tensor.sym_size(1);
  if (heads == kvHeads) return tensor;
  return tensor.unsqueeze(2)
      .expand_symint({tensor.sym_size(0), kvHeads, heads / kvHeads, tensor.sym_size(2), tensor.sym_size(3)})
      .reshape_symint({tensor.sym_size(0), heads, tensor.sym_size(2), tensor.sym_size(3)});
}

// An added mask in the type of q. What only the wider type holds becomes the lowest finite number, not -Inf: a row
// masked out by the former gives the mean of the values, by the latter zero.
at::Tensor added(const at::Tensor& mask, const at::Tensor& q) {
  if (mask.scalar_type() == q.scalar_type()) return mask;
  const double lowest = q.scalar_type() == at::kHalf ? -65504.0 : -3.3895313892515355e38;  // of fp16, bf16
  if (q.scalar_type() != at::kHalf && q.scalar_type() != at::kBFloat16) return mask.to(q.scalar_type());
  return at::where(mask == kLowest, mask, mask.clamp_min(lowest)).to(q.scalar_type());
}

// What PyTorch takes: a mask that is added, whatever its kernels make of boolean ones in rows that see nothing, with
// an element for each key, and not together with causal.
OptionalTensor oneMask(const OptionalTensor& given4, const at::Tensor& q, const at::Tensor& k, bool causal) {
  if (!given(given4)) return {};
  const bool keeps = given4->scalar_type() == at::kBool;
  at::Tensor mask = keeps
                        ? at::zeros_symint(given4->sym_sizes(), q.options()).masked_fill(given4->logical_not(), kLowest)
                        : added(*given4, q);
  while (mask.dim() < 2) mask = mask.unsqueeze(0);
  if (causal) {
    const at::TensorOptions options = q.options().dtype(at::kLong);
    const at::Tensor seen =
        at::arange(k.sym_size(2), options).unsqueeze(0) <= at::arange(q.sym_size(2), options).unsqueeze(1);
    return mask.masked_fill(seen.logical_not(), kLowest);
  }
  if (mask.sym_stride(-1) == 1 && mask.sym_size(-1) == k.sym_size(2)) return mask;
  c10::SymDimVector sizes(mask.sym_sizes().begin(), mask.sym_sizes().end());
  sizes.back() = k.sym_size(2);
  return mask.expand_symint(sizes).contiguous();
}

// PyTorch's memory-efficient kernel keeps what the gradient needs where one of q, k and v has a gradient, not where the
// mask alone has one.
at::Tensor differentiable(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask) {
  const bool isOfMaskAlone = given(mask) && mask->requires_grad() && at::GradMode::is_enabled() && !q.requires_grad() &&
                             !k.requires_grad() && !v.requires_grad();
  return isOfMaskAlone ? q.detach().requires_grad_() : q;
}

at::Tensor attended(const at::Tensor& q3, const at::Tensor& k3, const at::Tensor& v3, const OptionalTensor& mask3,
                    std::optional<double> scale, bool causal, double dropout) {
  checkAttention(q3, k3, v3, mask3);
  const c10::SymInt batch = attentionBatch(q3, k3, v3, mask3);
  const auto wide = [&](const at::Tensor& tensor) { return withBatch(withHeads(tensor), batch); };
  const at::Tensor q = wide(q3), k = wide(k3), v = wide(v3);
  const OptionalTensor mask4 =
      given(mask3) && q3.dim() == 3 && mask3->dim() == 3 ? OptionalTensor(mask3->unsqueeze(1)) : mask3;
  const OptionalTensor mask = oneMask(mask4, q, k, causal);
  // The flash kernel reads shared heads in place; the others, and any kernel with a mask, want them repeated.
  const bool grouped = q.is_cuda() && !given(mask) && q.scalar_type() != at::kFloat && q.scalar_type() != at::kDouble;
  const at::Tensor out = at::scaled_dot_product_attention(
      differentiable(q, k, v, mask), grouped ? k : repeated(k, q), grouped ? v : repeated(v, q), mask, dropout,
      causal && !given(mask), scale, grouped && q.sym_size(1) != k.sym_size(1));
  // As the operator promises: in memory [batch, length, heads, head size].
  const at::Tensor laid = out.transpose(1, 2).contiguous();
  return q3.dim() == 3 ? laid.squeeze(2) : laid.transpose(1, 2);
}

}  // namespace

at::Tensor attentionTrained(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                            std::optional<double> scale, bool causal) {
  return attended(q, k, v, mask, scale, causal, 0.0);
}

}  // namespace graft::ops
