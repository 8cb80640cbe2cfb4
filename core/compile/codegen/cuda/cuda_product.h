// Matrix products on a GPU: the tiles that a block multiplies, which of them suit a product, and the functions that the
// code calls. One source serves NVIDIA's GPUs from compute capability 8.0 on: operands go to shared memory
// asynchronously (cp.async), and warps multiply by mma.sync. Sums are f32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::codegen {

/// What one block computes, and how.
struct ProductTile {
  int rows = 128, columns = 128;               ///< of the result
  int stages = 3;                              ///< slices of the operands, 64 deep, that are on the way
  int warpRows = 2, warpColumns = 4, inner = 1;  ///< warps along rows, along columns, and for one part of a slice each
  int threads() const { return 32 * warpRows * warpColumns * inner; }
  int64_t sharedBytes() const;
  std::string describe() const;  ///< "tiles of 128 by 128, 3 stages, 8 warps"
  bool operator==(const ProductTile&) const = default;
};

/// The product that a kernel computes.
struct ProductSize {
  int64_t batches = 1, rows = 0, columns = 0, inner = 0;
  bool operator==(const ProductSize&) const = default;
};

/// The limits of a GPU.
struct ProductLimits {
  int multiprocessors = 132;
  int64_t sharedBytes = 99 * 1024;  ///< of a block
};

/// All tiles that fit, the one that is predicted to be the fastest first. Never empty.
std::vector<ProductTile> productTiles(const ProductSize&, const ProductLimits&);

/// The functions of the machine that products need besides those of all kernels, and what is made of them.
std::string_view cudaProductMachine();
std::string_view cudaProductHelpers();

}  // namespace graft::codegen
