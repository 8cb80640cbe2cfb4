// linearForward: activation(x W^T + b) + residual on the CPU, with weights packed once.
//
//   at::Tensor y = linearForward(x, weight, bias, Activation::Gelu, {});
//
// Up to 256 rows run in our own loops (linear_impl.h), more rows in oneDNN. Each needs the weight in a layout of its
// own, which is made on first use (packed_weights.h); then it is 1.2 to 1.8 times as fast as at::linear. Weights that
// cannot be packed run in at::linear.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cpu/loops.h"
#include "kernels/ops/contracts.h"

namespace graft::ops {

// x [..., in], weight [out, in] or, from a convolution, [out, in, 1, ...], bias [out], residual broadcastable to the
// output [..., out]. The inputs must have passed their checks and must not be fp64. The output is contiguous and of x's
// type; 16-bit types are computed in fp32 and rounded once.
at::Tensor linearForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual);

// x [rows, in] or [batch, rows, in] times each matrix of weight [batch, in, out], in our own loops. Undefined where
// there are too many rows for them, or the weight cannot be packed. The inputs must have passed their checks and must
// not be fp64; the output is contiguous and of x's type.
at::Tensor batchedLinearForward(const at::Tensor& x, const at::Tensor& weight);

}  // namespace graft::ops
