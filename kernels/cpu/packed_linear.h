// x W^T + b in fp32 with an activation, through oneDNN with weights packed once.
//
// Packing a weight into oneDNN's own layout makes small products up to 1.8 times faster than at::linear. The packed copy is
// kept in a cache, found again by the weight's storage and place in it. It holds the storage weakly: a weight that is freed
// frees its copy. It is made anew when the weight's version has changed, or a spot check of its values says so (which catches
// what PyTorch does not count as a change: writing through .data or NumPy). Inference tensors have no version and are not
// packed. The cache takes at most GRAFT_OPS_PACKED_MB megabytes (default 4096); beyond that weights stay unpacked.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/contracts.h"
#include "kernels/cpu/loops.h"

namespace graft::ops {

// activation(x weight^T + bias), contiguous, in fp32 whatever 16-bit type the inputs have. Inputs are checked already and not
// fp64.
at::Tensor linearInFloats(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, Activation activation);

}  // namespace graft::ops
