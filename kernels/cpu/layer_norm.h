// layerNormForward: LayerNorm(x + input bias + residual) over the last dimension on the CPU, in parallel over rows.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/ops/contracts.h"

namespace graft::ops {

// residual broadcastable to x [..., n]; weight, bias and inputBias [n]. The inputs must have passed their checks and
// must not be fp64. The output is contiguous and of x's type; sums and statistics are fp32.
at::Tensor layerNormForward(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                            const OptionalTensor& bias, double eps, const OptionalTensor& inputBias);

}  // namespace graft::ops
