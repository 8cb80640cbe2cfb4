// graft::linear_norm_linear and attention_norm_linear on CUDA: two kernels for a few rows, otherwise the kernels of the
// operators that they combine.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "kernels/cuda/attention/attention_call.h"
#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/product.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

constexpr int64_t kFewRows = 32;  // the limit of gemm_rows.cu

bool few(const at::Tensor& x, int64_t rows) {
  return hopper() && x.scalar_type() != at::kFloat && rows > 0 && rows <= kFewRows;
}

// (the norm of `sum`, the product of that norm); `sum` must be contiguous.
Pair normLinear(const at::Tensor& sum, const OptionalTensor& normWeight, const OptionalTensor& normBias,
                const at::Tensor& nextWeight, const OptionalTensor& nextBias, double eps, c10::string_view activation) {
  const RowNorm norm(sum, normWeight, normBias, eps, RowNorm::Into::kNew);
  const Product next = productOf("linear_norm_linear", norm.out, nextWeight, nextBias, activationOf(activation), {});
  if (next.out.numel() != 0) {
    runNormGemm(norm.args, next.args, c10::cuda::getCurrentCUDAStream());
  } else if (norm.out.numel() != 0) {
    report("linear_norm_linear", launchNorm(norm.args, c10::cuda::getCurrentCUDAStream()));
  }
  return {norm.out, next.out};
}

Pair linearNormLinear(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                      const at::Tensor& residual, const OptionalTensor& normWeight, const OptionalTensor& normBias,
                      const at::Tensor& nextWeight, const OptionalTensor& nextBias, double eps,
                      c10::string_view activation) {
  if (ops::widerThan(x, residual))
    return linearNormLinear(ops::withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, nextWeight,
                            nextBias, eps, activation);
  ops::checkLinearNorm("linear_norm_linear", x, weight, bias, residual, normWeight, normBias);
  ops::checkNormLinear("linear_norm_linear", x, weight, nextWeight, nextBias);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const Product first = productOf("linear_norm_linear", x, weight, bias, Activation::kNone, residual);
  if (first.out.numel() == 0 || few(x, first.args.m)) {
    if (first.out.numel() != 0) runGemm(first.args, stream);
    return normLinear(first.out, normWeight, normBias, nextWeight, nextBias, eps, activation);
  }
  const RowNorm norm(first.out, normWeight, normBias, eps, RowNorm::Into::kItself);
  runGemmNorm(first.args, norm.args, stream);
  const Product next = productOf("linear_norm_linear", norm.out, nextWeight, nextBias, activationOf(activation), {});
  if (next.out.numel() != 0) runGemm(next.args, stream);
  return {norm.out, next.out};
}

Pair attentionNormLinear(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                         const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
                         const OptionalTensor& normWeight, const OptionalTensor& normBias, const at::Tensor& nextWeight,
                         const OptionalTensor& nextBias, double eps, std::optional<double> scale, bool causal,
                         c10::string_view activation) {
  ops::checkAttentionNormLinear(q, k, v, mask, weight, bias, residual, normWeight, normBias, nextWeight, nextBias);
  const c10::cuda::CUDAGuard guard(q.device());
  const int64_t batch = ops::attentionBatch(q, k, v, mask).expect_int();
  const int64_t rows = batch * q.size(2), features = q.size(1) * v.size(3);
  const std::vector<c10::SymInt> shape = ops::attentionNormShape(q, k, v, mask, weight, residual);
  const bool isWider = shape[0] != batch || shape[1] != q.size(2);  // the residual has more rows
  if (!isWider && few(q, rows) && k.size(2) > 0 && weight.size(0) > 0) {
    const AttentionCall call(q, k, v, mask, scale, causal);
    const int64_t leading[] = {batch, q.size(2)};
    const Product product =
        productWithout("attention_norm_linear", q.options(), leading, weight, bias, Activation::kNone, residual);
    const cudaError_t status = launchAttentionRows(call.args, product.args, c10::cuda::getCurrentCUDAStream());
    if (status == cudaSuccess)
      return normLinear(product.out, normWeight, normBias, nextWeight, nextBias, eps, activation);
    if (status != cudaErrorNotSupported) report("attention_norm_linear", status);
  }
  const at::Tensor x = attention(q, k, v, mask, scale, causal).transpose(1, 2).reshape({batch, q.size(2), features});
  return linearNormLinear(x, weight, bias, residual, normWeight, normBias, nextWeight, nextBias, eps, activation);
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("linear_norm_linear", &CompositeFallback<"linear_norm_linear", linearNormLinear>::call);
  m.impl("attention_norm_linear", &CompositeFallback<"attention_norm_linear", attentionNormLinear>::call);
}

}  // namespace graft::cuda
