// graft::linear_add_layer_norm
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "linear_add_layer_norm",
    "linear_add_layer_norm(Tensor x, Tensor weight, Tensor? bias, Tensor residual, Tensor? norm_weight, "
    "Tensor? norm_bias, float eps=1e-05) -> Tensor",
    "layer_norm(x weight^T + bias + residual) * norm_weight + norm_bias over the last dimension: the end of a "
    "transformer's block. Either the product adds bias and residual while it is written or the norm does while it "
    "reads, whichever is faster for the sizes at hand; what passes between them is rounded once to the type. The "
    "product and the residual broadcast. The output is contiguous.",
    "as linear and add_layer_norm", "row_major"};

at::Tensor composite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                     const at::Tensor& residual, const OptionalTensor& normWeight, const OptionalTensor& normBias,
                     double eps) {
  if (widerThan(x, residual))
    return composite(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, eps);
  checkLinearNorm(info.name, x, weight, bias, residual, normWeight, normBias);
  const at::ScalarType compute = computeType(x);
  const auto widened = [&](const OptionalTensor& tensor) {
    return given(tensor) ? OptionalTensor(tensor->to(compute)) : OptionalTensor();
  };
  const at::Tensor sum = at::linear(x.to(compute), weight.to(compute), widened(bias)) + residual.to(compute);
  const c10::SymInt columns[] = {weight.sym_size(0)};
  return at::layer_norm_symint(sum, columns, widened(normWeight), widened(normBias), eps)
      .to(x.scalar_type())
      .contiguous();
}

at::Tensor cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
               const OptionalTensor& normWeight, const OptionalTensor& normBias, double eps) {
  if (widerThan(x, residual)) return cpu(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, eps);
  if (!hasLoops(x)) return composite(x, weight, bias, residual, normWeight, normBias, eps);
  checkLinearNorm(info.name, x, weight, bias, residual, normWeight, normBias);
  const at::Tensor product = linearForward(x, weight, bias, Activation::None, {});
  return layerNormForward(product, residual, normWeight, normBias, eps, {});
}

at::Tensor meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
                const OptionalTensor& normWeight, const OptionalTensor& normBias, double eps) {
  if (widerThan(x, residual)) return meta(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, eps);
  checkLinearNorm(info.name, x, weight, bias, residual, normWeight, normBias);
  return at::empty_symint(linearShape(x, weight), x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, linearAddLayerNormTrained>(m, cpu, meta); }

}  // namespace graft::ops
