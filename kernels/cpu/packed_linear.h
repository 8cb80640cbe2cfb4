// activation(x W^T + b) + residual with weights packed once.
//
// Few rows (up to 24) go through our own loops (linear_impl.h), more through oneDNN: each wants the weight in a layout
// of its own, made on first use, and is then 1.2 to 1.8 times faster than at::linear. The packed copy is kept in a
// cache, found again by the weight's storage and place in it. It holds the storage weakly: a weight that is freed frees
// its copy. It is made anew when the weight's version has changed, or a spot check of its values says so (which catches
// what PyTorch does not count as a change: writing through .data or NumPy). Inference tensors have no version and are
// not packed. All copies together take at most GRAFT_OPS_PACKED_MB megabytes (default 4096); beyond that weights stay
// unpacked and at::linear is used.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/contracts.h"
#include "kernels/cpu/loops.h"

namespace graft::ops {

// The output is contiguous and of x's type; 16-bit types are computed in fp32 and rounded once. Inputs are checked
// already, and not fp64. The residual broadcasts to the output.
at::Tensor linearForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual);

}  // namespace graft::ops
