#pragma once
// CapturedGraph: a run captured as a CUDA graph, and the pool that its memory and streams belong to.
//
//   auto graph = captureOnce(pool, pool.memory, body);
//   const float ms = replayOnce(*graph);
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "kernels/cuda/graphs/exclusive_streams.h"
#include "kernels/cuda/graphs/graph_copies.h"

namespace graft::cuda {

/// What graphs of one device share that never run at the same time.
struct Pool {
  c10::DeviceIndex device;
  c10::MempoolId_t memory = at::cuda::graph_pool_handle();
  ExclusiveStreams streams;
  c10::cuda::CUDAStream
      stream;                  ///< streams.get(0); all captures use it, because a stream's memory is reused on it only
  cudaEvent_t last = nullptr;  ///< the end of the last use
  cudaStream_t lastStream = nullptr;

  explicit Pool(c10::DeviceIndex d);
  ~Pool();  ///< waits for the last use
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
};

struct CapturedGraph {
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  Pool* pool = nullptr;
  size_t kernels = 0, streams = 1;
  std::optional<GraphCopies> copies;
  cudaEvent_t start = nullptr, stop = nullptr;

  CapturedGraph() = default;
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
};

/// The caller's function to capture: function(argument), which returns 0 on failure.
struct Body {
  int (*function)(void*);
  void* argument;
  int (*resetFunction)(void*) = nullptr;  ///< null where the function writes to nothing that outlives it

  /// Runs it as it is, to be captured. What a captured run writes is written by replays alone.
  bool operator()() const;
  /// Before each run without a capture, and before each replay: brings the memory that the function writes back to what
  /// it was. Throws std::exception.
  void reset() const;
};

/// Captures what `run` launches on the current stream, in the given memory pool. `run` calls the body; it returns false
/// or throws where the capture must be discarded. Throws std::exception then.
std::unique_ptr<CapturedGraph> captureOnce(Pool& pool, c10::MempoolId_t memory, const std::function<bool()>& run);

/// Replays the graph on the current stream and waits for it. Its time in milliseconds.
float replayOnce(CapturedGraph& graph);

/// Whether `b` takes less time than `a`, by more than the measurement's noise. The two, both captured from `body`, are
/// replayed in turn.
bool isFaster(CapturedGraph& a, CapturedGraph& b, const Body& body);

}  // namespace graft::cuda
