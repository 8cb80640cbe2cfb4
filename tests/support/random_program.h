// Random programs for tests: every one is valid (loops::verify accepts it), and comes with a call of it, so that two
// ways to run it can be compared. The same seed makes the same call.
//
//   RandomCall call = randomCall(seed, {.isExact = true});
//   interpret(call.program, call.sizes, call.buffers);
//   std::vector<std::byte> wanted = call.outputBytes();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/compile/loops/interpret.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

struct RandomOptions {
  /// Floating numbers stay small whole numbers, and operations are those that do not round, so that results are equal
  /// bit by bit in whatever order sums are added. Otherwise all operations and all values occur, NaN too.
  bool isExact = true;
  bool hasHalves = true;  ///< f16 and bf16 buffers
  bool hasScans = true;
  bool hasChecks = true;  ///< checked_index and checked_divisor; what they check always holds
  bool hasSizes = true;   ///< sizes that vary
  bool isStrided = true;  ///< buffers have gaps, other orders of dimensions, and inputs strides of 0
  int deepest = 4;        ///< of expressions
  int mostNests = 3;
};

struct RandomCall {
  Program program;
  std::vector<int64_t> sizes;
  std::vector<Memory> buffers;  ///< of program.inputs(), then of program.outputs(), in memory that the call owns

  /// The elements of all outputs, dense, in row-major order.
  std::vector<std::byte> outputBytes() const;
  /// Fills the outputs with bytes that no test expects.
  void clearOutputs();

  std::vector<std::unique_ptr<std::byte[]>> storage;
  std::vector<size_t> storageSizes;  ///< in bytes
};

RandomCall randomCall(uint64_t seed, const RandomOptions& = {});

}  // namespace graft::loops
