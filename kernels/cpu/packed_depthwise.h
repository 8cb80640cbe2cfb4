// Depthwise convolutions on the CPU: activation(conv(x, weight) + bias + residual) where each channel is convolved with
// a kernel of its own.
//
//   if (mayRunDepthwise(x, weight, conv)) y = depthwiseForward(x, weight, bias, residual, conv, activation, alpha,
//   beta);
//
// The loops are in depthwise_impl.h. The activation and the residual are applied to each row while it lies in the
// cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu/packed_conv.h"

namespace graft::ops {

// x is an fp32 image in channels-last. The loops take kernels of 3, 5 or 7 columns, of which each column is a pixel,
// and steps of 1 or 2; oneDNN is for the others.
bool mayRunDepthwise(const at::Tensor& x, const at::Tensor& weight, const ConvArgs& conv);

// fp32, in channels-last; undefined where no memory for the packed weight is left. The weight must mayPack(); bias is
// contiguous fp32 or undefined; the residual is fp32 in the output's layout, or undefined.
at::Tensor depthwiseForward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& residual, const ConvArgs& conv, at::IntArrayRef outputShape,
                            Activation activation, double alpha, double beta);

}  // namespace graft::ops
