// LayerNorm(x + input bias + residual) over the last dimension, in parallel over rows, by the loops of this processor.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/contracts.h"

namespace graft::ops {

// The output is contiguous and of x's type; sums and statistics are fp32. Inputs are checked already, and not fp64.
at::Tensor layerNormForward(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                            const OptionalTensor& bias, double eps, const OptionalTensor& inputBias);

}  // namespace graft::ops
