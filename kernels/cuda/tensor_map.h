#pragma once
// TMA descriptors for row-major matrices of half types, read in boxes of 64 columns x `boxRows` rows with 128-byte
// swizzle.
#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// False when the matrix does not suit the engine: base or row stride not a multiple of 16 bytes, or a driver without
// it.
bool makeTensorMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                   int boxRows);

}  // namespace graft::cuda
