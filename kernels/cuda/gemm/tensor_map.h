#pragma once
// TMA descriptors (tensor maps) for matrices of half types with contiguous rows. TMA reads zeros beyond the matrix, and
// drops what it would write there.
//
//   CUtensorMap map;
//   if (!makeTensorMap(map, x, Dtype::kHalf, rows, columns, rowStride, 64)) return cudaErrorNotSupported;
//
// Sizes and strides are in elements. The functions return false where TMA cannot read the matrix: base or row stride
// not a multiple of 16 bytes, or a driver without TMA.
#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// Boxes of boxRows x 64 columns with 128-byte swizzle.
bool makeTensorMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                   int boxRows);

// Boxes of boxRows x 32, 16 or 8 columns, with 64-byte, 32-byte or no swizzle: as many bytes as a row of the box has.
// boxOffset() in hopper.cuh computes the addresses.
bool makeBoxMap(CUtensorMap& map, const void* data, Dtype dtype, int64_t rows, int64_t columns, int64_t rowStride,
                int boxRows, int boxColumns);

// A 4-D map for attention, [batch, head, position, column], with `strides` of batch, head and position. A box is
// boxRows positions x 64 columns of one head, with 128-byte swizzle.
bool makeHeadMap(CUtensorMap& map, const void* data, Dtype dtype, int batch, int heads, int positions, int columns,
                 const int64_t (&strides)[3], int boxRows);

}  // namespace graft::cuda
