#pragma once
// Convolutions in groups of several channels, by the fastest of three ways: cuDNN over images with channels last, cuDNN
// over images in rows, and a matrix product of each group's windows. cuDNN has kernels for tensor cores where filters
// are short; for a filter of 128 places, as in the positions of wav2vec 2.0, its own takes 14 times as long as the
// product (docs/measurements/zoo.md, "Convolutions over time").
#include "kernels/cuda/convolution/conv_call.h"

namespace graft::cuda {

/// Whether there is something to choose: half types, two dimensions of places, and enough channels in each group for
/// tensor cores.
bool isOfGroups(const ConvCall&);

/// The convolution without bias, residual and activation, in any layout. The first call of a problem times the ways,
/// where tuning is allowed; the choice is kept with those of products. Of a call that isOfGroups().
at::Tensor convolveGroups(const ConvCall&);

}  // namespace graft::cuda
