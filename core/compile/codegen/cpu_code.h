// Code for the CPU: LLVM IR of a program's nests, as text that kernels/jit makes machine code of.
//
//   Result<CpuCode> code = makeCpuCode(program, {.level = CpuLevel::Avx512});
//   // compile code->ir, look nest_0 up, and for its iterations, in parallel:
//   int failed = nest_0(buffers, sizes, scratch, begin, end);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/loop_schedule.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

/// The instructions that code uses; numbered as in kernels/jit/jit.h.
enum class CpuLevel : uint8_t { Base, Avx2, Avx512 };

/// Where the elements of a buffer lie: a stride in elements for each dimension, an i64 expression of constants and
/// sizes in the program's pool. 0 repeats elements of an input.
struct Layout {
  std::vector<loops::ExprId> strides;
};
Layout constantLayout(loops::Program&, const std::vector<int64_t>& strides);
/// Without gaps. `order`: the dimensions from the slowest to the fastest; empty: as they are.
Layout denseLayout(loops::Program&, loops::BufferId, const std::vector<size_t>& order = {});

struct CpuOptions {
  CpuLevel level = CpuLevel::Base;
  /// Of program.inputs(), then program.outputs(); empty: all are dense, in the order of their dimensions.
  std::vector<Layout> layouts = {};
  /// Of program.sizes, where the code is for these alone; empty: they vary.
  std::vector<int64_t> sizes = {};
  LoopSchedule schedule = {};
  /// Of program.sizes where they vary: what they are in a usual call, which the code is planned for. Empty: not known.
  std::vector<int64_t> guesses = {};
};

struct CpuNest {
  std::string function;        ///< "nest_0", a NestFunction
  loops::ExprId iterations;    ///< they are independent: any slices of 0 … iterations may run at the same time
  loops::ExprId scratchBytes;  ///< that each call needs for itself, aligned to 64 bytes
  double nanoseconds = 0;      ///< of one iteration, estimated
};

/// Runs iterations [begin, end). `buffers`: inputs, outputs, then temporaries, each in the program's order. `sizes`: of
/// program.sizes. Returns 1 where a check failed, with elements that are then meaningless, and 0 otherwise.
using NestFunction = int (*)(void* const* buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end);

struct CpuCode {
  loops::Program program;  ///< as the code computes it; owns the expressions below
  std::string ir;
  std::vector<CpuNest> nests;                 ///< to be run one after another
  std::vector<loops::ExprId> temporaryBytes;  ///< of each temporary, in the order of `buffers`
};

/// The program must be verified.
Result<CpuCode> makeCpuCode(loops::Program, const CpuOptions&);

}  // namespace graft::codegen
