// graft::conv_bias_add_relu
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>

#include "kernels/cpu/support.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "conv_bias_add_relu",
    "conv_bias_add_relu(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, "
    "int[] dilation, int groups, bool relu=True) -> Tensor",
    "relu(conv(x, weight, bias) + residual) in 1 to 3 spatial dimensions: a ResNet block's last convolution with its "
    "shortcut. The residual has the output's shape or broadcasts to it. The output is channels-last where x or weight "
    "is, "
    "otherwise contiguous.",
    "oneDNN for the convolution, or cuDNN; bias, addition and ReLU in one pass in place, and for channels-last half "
    "types "
    "on CUDA in the convolution itself",
    "convolution"};

using Ints = at::IntArrayRef;

void check(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, const OptionalTensor& residual,
           Ints stride, Ints padding, Ints dilation, int64_t groups) {
  checkConv(x, weight, bias, residual, stride.size(), padding.size(), dilation.size(), groups);
  checkBroadcast(info.name, residual, "residual", convShape(x, weight, stride, padding, dilation), "the output");
}

at::Tensor composite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                     const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups,
                     bool relu) {
  check(x, weight, bias, residual, stride, padding, dilation, groups);
  const std::vector<int64_t> outputPadding(stride.size(), 0);
  const at::ScalarType compute = computeType(x);
  OptionalTensor addend;
  if (given(bias)) addend = bias->to(compute);
  at::Tensor out = at::convolution(x.to(compute), weight.to(compute), addend, stride, padding, dilation, false,
                                   outputPadding, groups);
  if (given(residual)) out = out + residual->to(compute);
  return (relu ? at::relu(out) : out).to(x.scalar_type()).contiguous(convFormat(x, weight));
}

at::Tensor cpu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
               const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups, bool relu) {
  if (x.scalar_type() != at::kFloat)
    return composite(x, weight, bias, residual, stride, padding, dilation, groups, relu);
  check(x, weight, bias, residual, stride, padding, dilation, groups);
  const at::MemoryFormat format = convFormat(x, weight);
  const std::vector<int64_t> outputPadding(stride.size(), 0);
  at::Tensor out = at::convolution(x, weight, bias, stride, padding, dilation, false, outputPadding, groups);
  out = out.contiguous(format);
  if (!given(residual) && !relu) return out;
  const at::Tensor added = given(residual) ? residual->expand_as(out).contiguous(format) : at::Tensor();
  at::parallel_for(0, out.numel(), grain(1), [&](int64_t begin, int64_t end) {
    loops().addRelu(scalarOf(out), relu, out.const_data_ptr(), added.defined() ? added.const_data_ptr() : nullptr,
                    out.mutable_data_ptr(), begin, end);
  });
  return out;
}

at::Tensor meta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                const OptionalTensor& residual, Ints stride, Ints padding, Ints dilation, int64_t groups, bool relu) {
  check(x, weight, bias, residual, stride, padding, dilation, groups);
  return at::empty_symint(convShape(x, weight, stride, padding, dilation), x.options(), convFormat(x, weight));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite>(m, cpu, meta); }

}  // namespace graft::ops
