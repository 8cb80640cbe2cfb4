// CudaRunner: a program on a GPU without what launching its kernels one by one costs. The first run with inputs of some
// shape is captured in a CUDA graph, later ones replay it. Captures share one pool of memory; the least recently used
// goes when there are too many. Loads libgraft_cuda_runner.so when it is made.
//
//   auto runner = CudaRunner::make(program);           // a Program for "cuda", which must outlive the runner
//   auto out = runner->run(inputs);
//   runner->time(inputs, /*flushed=*/false)->milliseconds
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft {

class CudaRunner {
 public:
  struct Impl;
  /// NoDevice where the program does not run on a GPU or the library is missing.
  static Result<CudaRunner> make(const Program&, size_t captures = 16);
  CudaRunner(CudaRunner&&) noexcept;
  CudaRunner& operator=(CudaRunner&&) noexcept;
  ~CudaRunner();

  /// The outputs are the caller's own. Threads take turns. A model that cannot be captured (its shapes depend on data,
  /// say) is an error that says so: Program::run runs it.
  Result<TensorSet> run(const TensorSet& inputs);
  struct Replay {
    double milliseconds = 0;  ///< on the GPU, by events around the whole graph
    size_t kernels = 0;
  };
  /// Replays once and waits. `flushed`: with nothing in the L2 cache.
  Result<Replay> time(const TensorSet& inputs, bool flushed = false);

 private:
  explicit CudaRunner(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// What the GPU is doing, from NVML.
struct GpuState {
  std::string name;
  unsigned smClockMHz = 0, memoryClockMHz = 0;
  double powerWatts = 0;
};
/// Nothing where there is no NVIDIA driver.
std::optional<GpuState> gpuState(int device);

}  // namespace graft
