// graft::conv_bias_add_relu and graft::conv_activation
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>

#include "kernels/cpu/packed_conv.h"
#include "kernels/cpu/support.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo reluInfo{
    "conv_bias_add_relu",
    "conv_bias_add_relu(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, "
    "int[] dilation, int groups, bool relu=True) -> Tensor",
    "relu(conv(x, weight, bias) + residual) in 1 to 3 spatial dimensions: a ResNet block's last convolution with its "
    "shortcut. The residual has the output's shape or broadcasts to it. The output is channels-last where x or weight "
    "is, "
    "otherwise contiguous.",
    "on the CPU, weights packed for oneDNN on first use where x or weight is channels-last, or the weight is larger "
    "than the images; on CUDA, cuDNN, with bias, addition and ReLU in one pass in place, and for channels-last half "
    "types in the convolution itself where that is faster; on Hopper, filters of one place over channels-last half "
    "types "
    "are products, as linear computes them",
    "convolution"};

constexpr OperatorInfo activationInfo{
    "conv_activation",
    "conv_activation(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, "
    "int[] dilation, int groups, str activation=\"none\", float alpha=0.0, float beta=0.0) -> Tensor",
    "conv_bias_add_relu with any activation: activation(conv(x, weight, bias) + residual) with activation none, relu, "
    "gelu (exact, by erf), gelu_tanh, silu, sigmoid, tanh, hardswish, hardsigmoid, hardtanh (clamps to [alpha, beta]) "
    "or leaky_relu (slope alpha). The residual has the output's shape or broadcasts to it. The output is channels-last "
    "where x or weight is, otherwise contiguous.",
    "as conv_bias_add_relu", "convolution"};

using Ints = at::IntArrayRef;

void check(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
           const OptionalTensor& residual, const ConvArgs& conv) {
  checkConv(op, x, weight, bias, residual, conv.stride.size(), conv.padding.size(), conv.dilation.size(), conv.groups);
  checkBroadcast(op, residual, "residual", convShape(op, x, weight, conv.stride, conv.padding, conv.dilation),
                 "the output");
}

at::Tensor byAten(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                  const OptionalTensor& residual, const ConvArgs& conv, Activation activation, double alpha,
                  double beta) {
  const std::vector<int64_t> outputPadding(conv.stride.size(), 0);
  const at::ScalarType compute = computeType(x);
  OptionalTensor addend;
  if (given(bias)) addend = bias->to(compute);
  at::Tensor out = at::convolution(x.to(compute), weight.to(compute), addend, conv.stride, conv.padding, conv.dilation,
                                   false, outputPadding, conv.groups);
  if (given(residual)) out = out + residual->to(compute);
  return laid(activated(out, activation, alpha, beta).to(x.scalar_type()), convFormat(x, weight));
}

at::Tensor outputLike(const char* op, const at::Tensor& x, const at::Tensor& weight, const ConvArgs& conv) {
  return at::empty_symint(convShape(op, x, weight, conv.stride, conv.padding, conv.dilation), x.options(),
                          convFormat(x, weight));
}

at::Tensor reluComposite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                         bool relu) {
  const ConvArgs conv{stride, padding, dilation, groups};
  check(reluInfo.name, x, weight, bias, residual, conv);
  return byAten(x, weight, bias, residual, conv, relu ? Activation::Relu : Activation::None, 0, 0);
}

at::Tensor reluCpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                   const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                   bool relu) {
  if (!hasLoops(x)) return reluComposite(x, weight, bias, residual, stride, padding, dilation, groups, relu);
  const ConvArgs conv{stride, padding, dilation, groups};
  check(reluInfo.name, x, weight, bias, residual, conv);
  return convForward(x, weight, bias, residual, conv, relu ? Activation::Relu : Activation::None);
}

at::Tensor reluMeta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                    const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups, bool) {
  const ConvArgs conv{stride, padding, dilation, groups};
  check(reluInfo.name, x, weight, bias, residual, conv);
  return outputLike(reluInfo.name, x, weight, conv);
}

at::Tensor activationComposite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                               std::string_view activation, double alpha, double beta) {
  const ConvArgs conv{stride, padding, dilation, groups};
  check(activationInfo.name, x, weight, bias, residual, conv);
  checkConvActivation(activation);
  return byAten(x, weight, bias, residual, conv, activationOf(activation), alpha, beta);
}

at::Tensor activationCpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                         std::string_view activation, double alpha, double beta) {
  if (!hasLoops(x)) {
    return activationComposite(x, weight, bias, residual, stride, padding, dilation, groups, activation, alpha, beta);
  }
  const ConvArgs conv{stride, padding, dilation, groups};
  check(activationInfo.name, x, weight, bias, residual, conv);
  checkConvActivation(activation);
  return convForward(x, weight, bias, residual, conv, activationOf(activation), alpha, beta);
}

at::Tensor activationMeta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                          const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                          std::string_view activation, double, double) {
  const ConvArgs conv{stride, padding, dilation, groups};
  check(activationInfo.name, x, weight, bias, residual, conv);
  checkConvActivation(activation);
  return outputLike(activationInfo.name, x, weight, conv);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  defineOperator<reluInfo, reluComposite>(m, reluCpu, reluMeta);
  defineOperator<activationInfo, activationComposite>(m, activationCpu, activationMeta);
}

}  // namespace graft::ops
