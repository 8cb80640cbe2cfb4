// Runs a program element by element: slow, simple, and what tests compare generated code with.
//
//   std::vector<Memory> buffers = …;                 // one for each of program.inputs(), then program.outputs()
//   Status s = interpret(program, {4}, buffers);     // sizes in the order of program.sizes
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

/// Where a buffer lies. It owns nothing.
struct Memory {
  void* data = nullptr;
  std::vector<int64_t> strides;  ///< in elements, one for each dimension
};

/// BadInput where a check failed: an index out of range, a division by zero. Arithmetic is in the expressions' dtypes;
/// f32 sums accumulate in f64.
Status interpret(const Program&, std::span<const int64_t> sizes, std::span<const Memory> buffers);

}  // namespace graft::loops
