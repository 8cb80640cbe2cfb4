// graft::linear
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <string_view>

#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "linear",
    "linear(Tensor x, Tensor weight, Tensor? bias=None, *, str activation=\"none\", Tensor? residual=None) -> Tensor",
    "activation(x weight^T + bias) + residual with activation none, relu, gelu (exact, by erf), gelu_tanh or silu. "
    "Accumulation, activation and addition happen in fp32 before the one rounding to the output's type. The product "
    "and "
    "the residual broadcast. The output is contiguous.",
    "on the CPU, weights packed for oneDNN on first use (not for inference tensors, which have no version to watch); "
    "on "
    "CUDA kernels of our own for float16 and bfloat16 where sizes and strides are multiples of 8, else cuBLASLt",
    "row_major"};

void check(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, std::string_view activation,
           const OptionalTensor& residual) {
  checkLinear(info.name, x, weight, bias);
  checkActivation(activation);
  checkLike(info.name, x, "x", residual, "residual");
  if (given(residual)) checkBroadcast(info.name, residual, "residual", linearShape(x, weight), "the output");
}

at::Tensor composite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                     std::string_view activation, const OptionalTensor& residual) {
  if (widerThan(x, residual)) return composite(withRowsOf(residual, x), weight, bias, activation, residual);
  check(x, weight, bias, activation, residual);
  const at::ScalarType compute = computeType(x);
  OptionalTensor addend;
  if (given(bias)) addend = bias->to(compute);
  at::Tensor out = activated(at::linear(x.to(compute), weight.to(compute), addend), activationOf(activation));
  if (given(residual)) out = out + residual->to(compute);
  return out.to(x.scalar_type()).contiguous();
}

at::Tensor cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, std::string_view activation,
               const OptionalTensor& residual) {
  if (widerThan(x, residual)) return cpu(withRowsOf(residual, x), weight, bias, activation, residual);
  if (!hasLoops(x)) return composite(x, weight, bias, activation, residual);
  check(x, weight, bias, activation, residual);
  return linearForward(x, weight, bias, activationOf(activation), residual);
}

at::Tensor meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, std::string_view activation,
                const OptionalTensor& residual) {
  if (widerThan(x, residual)) return meta(withRowsOf(residual, x), weight, bias, activation, residual);
  check(x, weight, bias, activation, residual);
  return at::empty_symint(linearShape(x, weight), x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, linearTrained>(m, cpu, meta); }

}  // namespace graft::ops
