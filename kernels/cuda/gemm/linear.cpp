// graft::linear, qkv_projection and linear_add_layer_norm on CUDA.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/product.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                  c10::string_view activation, const OptionalTensor& residual) {
  if (ops::widerThan(x, residual)) return linear(ops::withRowsOf(residual, x), weight, bias, activation, residual);
  ops::checkLinear("linear", x, weight, bias);
  ops::checkLike("linear", x, "x", residual, "residual");
  const Activation act = activationOf(activation);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  Product p = productOf("linear", x, weight, bias, act, residual);
  if (p.out.numel() == 0) return p.out;
  runGemm(p.args, stream);
  return p.out;
}

// One GEMM; q, k and v are views of its output [batch, length, heads + 2 kv heads, head size], with the heads in front.
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkvProjection(const at::Tensor& x, const at::Tensor& weight,
                                                             const OptionalTensor& bias, int64_t heads,
                                                             int64_t kvHeads) {
  ops::checkQkv(x, weight, bias, heads, kvHeads);
  const at::Tensor all = linear(x, weight, bias, "none", {});
  const at::Tensor split =
      all.view({x.size(0), x.size(1), heads + 2 * kvHeads, weight.size(0) / (heads + 2 * kvHeads)}).transpose(1, 2);
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kvHeads), split.narrow(1, heads + kvHeads, kvHeads)};
}

at::Tensor linearAddLayerNorm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                              const at::Tensor& residual, const OptionalTensor& normWeight,
                              const OptionalTensor& normBias, double eps) {
  if (ops::widerThan(x, residual))
    return linearAddLayerNorm(ops::withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, eps);
  const char* op = "linear_add_layer_norm";
  ops::checkLinearNorm(op, x, weight, bias, residual, normWeight, normBias);
  const c10::cuda::CUDAGuard guard(x.device());
  Product p = productOf(op, x, weight, bias, Activation::kNone, residual);
  if (p.out.numel() == 0) return p.out;
  const RowNorm norm(p.out, normWeight, normBias, eps, RowNorm::Into::kItself);
  runGemmNorm(p.args, norm.args, c10::cuda::getCurrentCUDAStream());
  return norm.out;
}

std::string linearAlgorithm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                            c10::string_view activation, const OptionalTensor& residual) {
  const c10::cuda::CUDAGuard guard(x.device());
  return describeGemm(productOf("linear", x, weight, bias, activationOf(activation), residual).args);
}

std::optional<at::Tensor> linearBy(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                   c10::string_view activation, const OptionalTensor& residual,
                                   c10::string_view algorithm) {
  const c10::cuda::CUDAGuard guard(x.device());
  Product p = productOf("linear", x, weight, bias, activationOf(activation), residual);
  if (!runGemmBy(p.args, std::string(algorithm), c10::cuda::getCurrentCUDAStream())) return std::nullopt;
  return p.out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("linear", &CompositeFallback<"linear", linear>::call);
  m.impl("qkv_projection", &CompositeFallback<"qkv_projection", qkvProjection>::call);
  m.impl("linear_add_layer_norm", &CompositeFallback<"linear_add_layer_norm", linearAddLayerNorm>::call);
}

// For tests and measurements: the names of all GEMM algorithms, the one that linear would use, and linear by one of
// them (None where it does not support the product).
TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("cuda_linear_algorithms() -> str", &gemmAlgorithms);
  m.def(
      "cuda_linear_algorithm(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", "
      "Tensor? residual=None) -> str",
      &linearAlgorithm);
  m.def(
      "cuda_linear_by(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? residual=None, "
      "str algorithm) -> Tensor?",
      &linearBy);
}

}  // namespace graft::cuda
