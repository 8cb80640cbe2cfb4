// Matrix products on a GPU: the tiles that a block multiplies, which of them suit a product, and the functions that the
// code calls. Operands go to shared memory asynchronously (cp.async). Warps multiply alone (mma.sync), on NVIDIA's GPUs
// from compute capability 8.0 on, or in groups of four (wgmma), on those of 9.0 alone. Sums are f32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/type.h"

namespace graft::codegen {

/// Rounded up.
inline int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What one block computes, and how.
struct ProductTile {
  int rows = 128, columns = 128;                 ///< of the result
  int stages = 3;                                ///< slices of the operands, 64 deep, that are on the way
  int warpRows = 2, warpColumns = 4, inner = 1;  ///< warps along rows, along columns, and for one part of a slice each
  bool isGrouped = false;  ///< four warps multiply 64 rows together, in all columns; the counts of warps say the same
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

/// From this compute capability on, blocks of a cluster read and write each other's shared memory.
constexpr int kClusterCapability = 90;

/// The limits of a GPU.
struct ProductLimits {
  int multiprocessors = 132;
  int64_t sharedBytes = 99 * 1024;  ///< of a block
  int capability = 80;              ///< 90 for 9.0
  int cluster = 8;                  ///< blocks that may run one iteration together, where the GPU has clusters
  int inRegisters = 32;             ///< elements of a row that a thread keeps in registers, of each value
  int64_t blockElements = 4096;     ///< elements of a row that are worth a block of their own where others are idle
};

/// All tiles that fit, the one that is predicted to be the fastest first. Never empty.
std::vector<ProductTile> productTiles(const ProductSize&, const ProductLimits&);

/// The functions of the machine that products need besides those of all kernels, and what is made of them.
std::string_view cudaProductMachine();
/// The machine's instruction of a group of warps, for so many columns, of operands that lie in either order.
std::string cudaGroupMachine(int columns, DType, bool isLeftInnerFast, bool isRightInnerFast);
std::string_view cudaProductHelpers();
std::string_view cudaGroupHelpers();

}  // namespace graft::codegen
