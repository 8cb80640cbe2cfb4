// Code for NVIDIA GPUs: CUDA C++ of a program's nests, as text without includes that NVRTC compiles.
//
//   Result<CudaCode> code = makeCudaCode(program, {.sizes = {7}});
//   // compile code->source, then launch code->kernels one after another on one stream
//
// A nest becomes one kernel. Where its iterations stand alone, each thread runs some that follow each other in memory
// (CudaPlan::Kind::Threads). Where an iteration reduces or keeps a row, a team of threads runs it, with the row in
// registers if it fits. Sums are added in an order that the sizes alone decide, so results are equal bit by bit from
// run to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/cpu_code.h"
#include "core/compile/codegen/cuda/cuda_parts.h"
#include "core/compile/codegen/cuda/cuda_product.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

struct CudaOptions {
  /// Of program.inputs(), then program.outputs(); empty: all are dense, in the order of their dimensions.
  std::vector<Layout> layouts;
  /// Of program.sizes: the code is for these alone.
  std::vector<int64_t> sizes;
  /// Of inputs, then outputs: their addresses are multiples of so many bytes. Empty: of 16.
  std::vector<int64_t> alignments;
  ProductLimits limits = {};             ///< of the GPU
  std::optional<ProductTile> tile = {};  ///< of matrix products; nothing: the one that is predicted to be the fastest
  /// Kernels are launched before the one before them has ended, and wait for it (programmatic dependent launch). Needs
  /// compute capability 9.0.
  bool isOverlapped = false;
  /// Buffers keep their names, for people. Otherwise groups that differ in names alone have the same source, which is
  /// compiled once.
  bool hasNames = true;
  /// What the kernels are called, as profilers show them: letters, digits and '_'. A number follows.
  std::string name = "kernel";
  /// With the origins of expressions, as loops/marks.h writes them: for people, since no compiler takes the marks.
  bool hasMarks = false;
  /// Above 0: code for a table of at most so many parts (cuda_parts.h). The program's size says how it is planned, not
  /// how long a part is.
  int64_t parts = 0;
  /// Refuses what a library does many times as fast: scans of few long rows, each of which one thread goes over.
  bool refusesSlowScans = false;
};

struct CudaKernel {
  std::string function;                     ///< extern "C"
  std::string schedule;                     ///< how it runs, for people
  std::vector<int> buffers;                 ///< its parameters: places in the list of inputs, outputs and temporaries
  int64_t blocks = 0;                       ///< at least 1
  int threads = 0;                          ///< of a block
  int64_t sharedBytes = 0;                  ///< dynamic shared memory of a block
  int cluster = 1;                          ///< blocks that run together, as the source says
  std::optional<ProductSize> product = {};  ///< where it computes a matrix product
  std::string helpers = {};                 ///< functions that it alone needs
  CudaPartTable table = {};  ///< of code in parts: its parameter in place of `buffers`, which lists a part's
};

struct CudaCode {
  std::string source;
  size_t preludeBytes = 0;              ///< of the source, in front of the first kernel: equal for all programs
  std::vector<CudaKernel> kernels;      ///< to be run one after another
  std::vector<int64_t> temporaryBytes;  ///< of each buffer behind inputs and outputs
};

/// The program must be verified. An error says why there can be no such code.
Result<CudaCode> makeCudaCode(loops::Program, const CudaOptions&);

/// What the source begins with: types, and the few functions that are not C++ but the machine's.
std::string_view cudaMachinePrelude();

}  // namespace graft::codegen
