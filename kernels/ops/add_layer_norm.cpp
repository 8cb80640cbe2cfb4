// graft::add_layer_norm
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>

#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "add_layer_norm",
    "add_layer_norm(Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, float eps=1e-05, *, "
    "Tensor? input_bias=None) -> Tensor",
    "layer_norm(x + input_bias + residual) * weight + bias over the last dimension, in one pass over memory and in "
    "fp32 "
    "throughout. input_bias is the bias of the linear layer that made x. x and the residual broadcast. The output "
    "is "
    "contiguous.",
    "any strides; contiguous inputs are read in place", "row_major"};

at::Tensor composite(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                     const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  if (widerThan(x, residual)) return composite(withRowsOf(residual, x), residual, weight, bias, eps, inputBias);
  checkNorm(info.name, x, residual, weight, bias, inputBias);
  const at::ScalarType compute = computeType(x);
  const auto widened = [&](const OptionalTensor& tensor) {
    return given(tensor) ? OptionalTensor(tensor->to(compute)) : OptionalTensor();
  };
  at::Tensor sum = x.to(compute);
  if (given(inputBias)) sum = sum + inputBias->to(compute);
  if (given(residual)) sum = sum + residual->to(compute);
  const c10::SymInt columns[] = {x.sym_size(-1)};
  return at::layer_norm_symint(sum, columns, widened(weight), widened(bias), eps).to(x.scalar_type()).contiguous();
}

at::Tensor cpu(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
               const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  if (widerThan(x, residual)) return cpu(withRowsOf(residual, x), residual, weight, bias, eps, inputBias);
  if (!hasLoops(x)) return composite(x, residual, weight, bias, eps, inputBias);
  checkNorm(info.name, x, residual, weight, bias, inputBias);
  return layerNormForward(x, residual, weight, bias, eps, inputBias);
}

at::Tensor meta(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  if (widerThan(x, residual)) return meta(withRowsOf(residual, x), residual, weight, bias, eps, inputBias);
  checkNorm(info.name, x, residual, weight, bias, inputBias);
  return at::empty_symint(x.sym_sizes(), x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, addLayerNormTrained>(m, cpu, meta); }

}  // namespace graft::ops
