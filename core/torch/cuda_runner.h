// CudaRunner: runs a program on a GPU as CUDA graphs, which saves launching its kernels one by one. It captures the
// first run with inputs of some shape and replays the capture for later ones. Captures share one pool of memory. When
// there are too many, the least recently used goes.
//
//   auto runner = CudaRunner::make(program);           // a Program for "cuda", which must outlive the runner
//   auto out = runner->run(inputs);
//   runner->time(inputs, /*flushed=*/false)->milliseconds
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft {

class CudaRunner {
 public:
  struct Impl;
  /// NoDevice where the program does not run on a GPU or the operators' CUDA half is not loaded; BadInput where its
  /// graph cannot be captured (for example because it calls an operator that is not known).
  static Result<CudaRunner> make(const Program&, size_t captures = 16);
  CudaRunner(CudaRunner&&) noexcept;
  CudaRunner& operator=(CudaRunner&&) noexcept;
  ~CudaRunner();

  /// The outputs belong to the caller. Threads take turns. A model that cannot be captured (for example because shapes
  /// depend on data) is an error that says so; Program::run can run it. Cancelling ends the first run of a shape
  /// between two operators; choices that the tuner has made by then are kept.
  Result<TensorSet> run(const TensorSet& inputs, const Job& = {});
  struct Replay {
    double milliseconds = 0;  ///< on the GPU, by events around the whole graph
    size_t kernels = 0, streams = 1;
  };
  /// Replays once and waits. `flushed`: with nothing in the L2 cache. Weights that the program writes are put back
  /// afterwards, so each run is timed on the same numbers.
  Result<Replay> time(const TensorSet& inputs, bool flushed = false, const Job& = {});

  /// One launch of a kernel, as the driver knows it.
  struct Launch {
    std::string kernel;
    int64_t blocks = 0, sharedBytes = 0;  ///< sharedBytes: of a block
    int threads = 0;                      ///< of a block
    int registers = -1;                   ///< of a thread; -1: not known
    int64_t localBytes = -1;              ///< of a thread: spilled registers, and arrays that are none
    std::optional<double> occupancy;      ///< share of the threads that a multiprocessor holds
  };
  struct NodeProfile {
    NodeId node;
    double microseconds = 0;  ///< on the GPU, from the node's first kernel to the next node's
    std::vector<Launch> launches;
  };
  struct Profile {
    double milliseconds = 0;  ///< of the graph as it is
    size_t kernels = 0;
    double labelledMs = 0;           ///< of the graph with an event marker before each node
    std::vector<NodeProfile> nodes;  ///< in the order they run; of a node in a loop all its runs together
  };
  /// Medians of `repetitions` replays. Times of nodes come from a second capture with event markers between them. Their
  /// sum is somewhat more than the whole takes, because kernels do not overlap across a marker.
  Result<Profile> profile(const TensorSet& inputs, int repetitions, const Job& = {});

 private:
  explicit CudaRunner(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// What is known of a graph before it runs on a GPU as a CUDA graph.
struct Capturing {
  std::string obstacle;             ///< why it cannot, and what to change; empty where nothing forbids it
  std::string waits;                ///< a node that keeps it from doing so if its tensor lies on the GPU; may be empty
  bool inPieces = false;            ///< whether a written model then has pieces that may run as CUDA graphs
  std::vector<std::string> writes;  ///< names of the buffers and inputs that each run writes
};
Capturing capturing(const Graph&);

/// How many more seconds the process may time algorithms on GPUs from now on. Nothing changes where
/// GRAFT_TUNING_SECONDS says how long, or there is no GPU.
void limitTuning(double seconds);
/// How many products run with a guessed algorithm because that time is over.
size_t guessedProducts();

/// Bytes read and written in a microsecond while the GPU copies more than its caches hold; 0 where there is none.
double gpuBandwidth(const std::string& device);

/// The most bytes of GPU memory that were held since the last call; 0 where there is no GPU.
size_t peakGpuMemory(const std::string& device);

}  // namespace graft
