// Code that runs one elementwise program for many sets of tensors in one launch: an optimizer's step does the same to
// each parameter, and most parameters are too small for a launch of their own.
//
// A part is the buffers of one set, with their own addresses and length. A kernel gets a table of parts as its only
// parameter, laid out as CudaPartTable says; each block finds the part that it belongs to. A part's outputs may lie
// where its inputs do, element on element: a thread loads what it needs before it stores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

/// How the table lies in memory, in bytes: an i32 with the number of parts and four bytes that nobody reads; then for
/// each part the addresses of `buffers` buffers, an i32 with its length in elements, and an i32 with its first block.
struct CudaPartTable {
  static constexpr int64_t kMostBytes = 32764;  ///< of a kernel's parameters, from CUDA 12.1 on
  static constexpr int64_t kHeadBytes = 8, kAddressBytes = 8, kTailBytes = 8;
  int64_t buffers = 0, parts = 0;
  int64_t vector = 1;         ///< what a part's length is a multiple of
  int64_t blockElements = 1;  ///< elements of a part that a block runs

  /// With room for so many parts, or for as many as fit a kernel's parameters.
  static CudaPartTable of(int64_t buffers, int64_t wanted);
  int64_t partBytes() const { return buffers * kAddressBytes + kTailBytes; }
  int64_t bytes() const { return kHeadBytes + parts * partBytes(); }
};

/// Where the buffers of a part lie, in the order that a kernel lists them, and how many elements each has.
struct CudaPart {
  std::vector<char*> buffers;
  int64_t length = 0;
};

/// What one launch takes: a table of parts, and the blocks that they need.
struct CudaPartLaunch {
  std::vector<char> table;
  int64_t blocks = 0;

  CudaPartLaunch(const CudaPartTable&, std::span<const CudaPart>);
};

/// Why there can be no code in parts for the program, or none. It has to be elementwise: one nest of one range, all
/// tensors as long as this range or with one element, and each of them read and written at the place of its range.
Status checkParts(const loops::Program&);

/// The types that a kernel in parts takes, and how a block finds its part.
std::string cudaPartHelpers(const CudaPartTable&, const std::string& type);

}  // namespace graft::codegen
