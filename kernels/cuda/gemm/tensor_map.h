#pragma once
// TMA descriptors for matrices of half types whose rows are contiguous, read in boxes of 64 columns x `boxRows` rows
// with 128-byte swizzle. What lies beyond the matrix reads as zero.
#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// False when the matrix does not suit the engine: base or row stride not a multiple of 16 bytes, or a driver without
// it.
bool makeTensorMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                   int boxRows);

// For boxes of 32, 16 or 8 columns, swizzled over as many bytes as a row of them has (64, 32, none), as boxOffset() in
// hopper.cuh finds them.
bool makeBoxMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                int boxRows, int boxColumns);

// The same as makeTensorMap for heads of attention, [batch, head, position, column]: `strides` of batch, head and
// position in elements. A box lies within one head.
bool makeHeadMap(CUtensorMap& map, const void* data, Dtype dtype, int batch, int heads, int positions, int columns,
                 const int64_t (&strides)[3], int boxRows);

}  // namespace graft::cuda
