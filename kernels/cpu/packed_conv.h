// convForward: activation(conv(x, weight) + bias + residual) on the CPU, with weights packed once.
//
//   at::Tensor y = convForward(x, weight, bias, residual, {stride, padding, dilation, groups}, Activation::Silu);
//
// oneDNN computes with channels innermost and reads the weight in a layout of its own (packed_weights.h). So:
// - images in channels-last, and those whose weight is, run in oneDNN with the packed weight. It is up to 3 times as
//   fast as at::convolution, which arranges the weight in every call or, for 1x1 kernels, does not use oneDNN at all;
// - a convolution that is a product of each pixel's channels runs as one (packed_linear.h);
// - other images would have to change their layout twice. That pays where the weight is larger than both images;
//   elsewhere they run in at::convolution.
//
// oneDNN's layout depends on the image's size. A copy for another size gives the same results, but may be slower, so
// a weight has copies for several sizes.
//
// oneDNN could apply the activation too. But its ReLU turns NaN into 0, and a pass over the result, which still lies in
// the cache, costs 2 to 10 % of a 1x1 convolution.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu/loops.h"
#include "kernels/ops/contracts.h"

namespace graft::ops {

struct ConvArgs {
  at::IntArrayRef stride, padding, dilation;
  int64_t groups = 1;
};

// The inputs must have passed checkConv and must not be fp64. The output is laid out as convFormat() says. 16-bit types
// are computed in fp32, or by the processor's bf16 products with sums in fp32, and rounded once.
at::Tensor convForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& residual, const ConvArgs& conv, Activation activation, double alpha = 0,
                       double beta = 0);

}  // namespace graft::ops
