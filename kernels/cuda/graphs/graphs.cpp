// The functions of GraftCudaGraphs (kernels/capture/cuda_graphs.h).
#include "kernels/capture/cuda_graphs.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/graphs/captured_graph.h"
#include "kernels/cuda/graphs/event_markers.h"
#include "kernels/cuda/graphs/fastest_capture.h"
#include "kernels/cuda/graphs/graph_support.h"
#include "kernels/cuda/graphs/tune_in_place.h"
#include "kernels/cuda/graphs/unused_memory.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

void* makePool(int device) {
  const c10::cuda::CUDAGuard onDevice(static_cast<c10::DeviceIndex>(device));
  return new Pool(static_cast<c10::DeviceIndex>(device));
}

void freePool(void* pool) {
  const c10::cuda::CUDAGuard onDevice(static_cast<Pool*>(pool)->device);
  delete static_cast<Pool*>(pool);
}

/// Runs the body without a capture, and tunes these problems alone.
void runTuning(const std::vector<std::string>& problems, const Body& body) {
  const TunedProblems tuned(problems);
  body.reset();
  if (!body()) throw std::runtime_error("the model does not run");
}

/// Ends captures of models that run too long for one: GRAFT_CAPTURE_SECONDS (60), tuning not counted.
class CaptureDeadline {
 public:
  void check() const {
    const double tuning = tuningBudget().secondsUsed() - tuningBefore_;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() - tuning;
    if (seconds > limit_)
      throw std::runtime_error("a few runs took " + std::to_string(static_cast<int>(seconds)) +
                               " s, so the capture was given up (GRAFT_CAPTURE_SECONDS sets the limit)");
  }

 private:
  const double limit_ = secondsFromEnvironment("GRAFT_CAPTURE_SECONDS", 60),
               tuningBefore_ = tuningBudget().secondsUsed();
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Waits until no work of a capture is left, also where the capture failed.
struct Settled {
  Pool& pool;
  ~Settled() {
    if (cudaStreamSynchronize(pool.stream.stream()) != cudaSuccess) (void)cudaGetLastError();
  }
};

void* captureWriting(void* handle, int (*function)(void*), int (*reset)(void*), void* argument, char* error,
                     size_t size) {
  try {
    const Body body{function, argument, reset};
    auto* pool = static_cast<Pool*>(handle);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    // Work on inputs and weights may still run on the caller's stream, and other graphs in this memory.
    C10_CUDA_CHECK(cudaStreamSynchronize(currentStream()));
    C10_CUDA_CHECK(cudaEventSynchronize(pool->last));
    // Memory that earlier runs used on other streams would be held beside what the runs below allocate.
    freeBlasWorkspaces();
    emptyAllocatorCache();
    const Settled settled{*pool};
    const c10::cuda::CUDAStreamGuard onStream(pool->stream);
    const CaptureDeadline deadline;
    std::vector<TuningProblem> problems;
    {
      const RecordedProblems recording(&problems);
      runTuning({}, body);
    }
    deadline.check();
    if (options().autotune) {
      for (const std::vector<std::string>& round : tuningRounds(problems)) runTuning(round, body);
    }
    runTuning({}, body);  // what was tuned loads its kernels
    C10_CUDA_CHECK(cudaStreamSynchronize(pool->stream.stream()));
    deadline.check();
    if (options().autotune) tuneInPlace(problems, *pool, body);
    emptyAllocatorCache();
    auto captured = captureFastest(*pool, body);
    // Outputs of the tuner's last attempt, and of captures that were discarded, were held until now.
    emptyAllocatorCache();
    return captured.release();
  } catch (const std::exception& e) {
    writeError(e, error, size);
    return nullptr;
  }
}

void* capture(void* handle, int (*function)(void*), void* argument, char* error, size_t size) {
  return captureWriting(handle, function, nullptr, argument, error, size);
}

bool beginUse(void* handle, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* pool = static_cast<Pool*>(handle);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    if (currentStream() != pool->lastStream) C10_CUDA_CHECK(cudaStreamWaitEvent(currentStream(), pool->last, 0));
  });
}

bool endUse(void* handle, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* pool = static_cast<Pool*>(handle);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    pool->lastStream = currentStream();
    C10_CUDA_CHECK(cudaEventRecord(pool->last, pool->lastStream));
  });
}

bool addCopies(void* graph, size_t inputs, void* const* into, const size_t* inputBytes, size_t outputs,
               void* const* outOf, const size_t* outputBytes, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* captured = static_cast<CapturedGraph*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    captured->copies.emplace(captured->graph.raw_cuda_graph(), GraphBlocks{inputs, into, inputBytes},
                             GraphBlocks{outputs, outOf, outputBytes});
    captured->graph.instantiate();
  });
}

bool replay(void* graph, const void* const* from, void* const* to, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* captured = static_cast<CapturedGraph*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    if (captured->copies) captured->copies->bind(captured->graph.raw_cuda_graph_exec(), from, to);
    captured->graph.replay();
  });
}

/// Overwrites memory of twice the L2 cache's size, so that no data of the last run is left in the cache.
void flushL2(cudaStream_t stream) {
  static void* buffer = nullptr;
  static size_t bytes = 0;
  if (!buffer) {
    bytes = 2 * static_cast<size_t>(at::cuda::getCurrentDeviceProperties()->l2CacheSize);
    C10_CUDA_CHECK(cudaMalloc(&buffer, bytes));
  }
  C10_CUDA_CHECK(cudaMemsetAsync(buffer, 1, bytes, stream));
}

float replayTimed(void* graph, bool flush, char* error, size_t size) {
  float milliseconds = -1;
  const bool ran = guarded(error, size, [&] {
    auto* captured = static_cast<CapturedGraph*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    cudaStream_t stream = currentStream();
    if (flush) flushL2(stream);
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    if (captured->copies) captured->copies->bind(captured->graph.raw_cuda_graph_exec(), nullptr, nullptr);
    milliseconds = replayOnce(*captured);
  });
  return ran ? milliseconds : -1;
}

size_t kernelCount(void* graph) { return static_cast<CapturedGraph*>(graph)->kernels; }
size_t streamCount(void* graph) { return static_cast<CapturedGraph*>(graph)->streams; }

void freeGraph(void* graph) {
  auto* captured = static_cast<CapturedGraph*>(graph);
  const c10::cuda::CUDAGuard onDevice(captured->pool->device);
  if (cudaEventSynchronize(captured->pool->last) != cudaSuccess) (void)cudaGetLastError();
  delete captured;
}

size_t peakMemory(int device) {
  const auto index = static_cast<c10::DeviceIndex>(device);
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  const auto stats = allocator->getDeviceStats(index);
  allocator->resetPeakStats(index);
  return static_cast<size_t>(
      stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}

void setTuningSeconds(double seconds) { tuningBudget().allowMore(seconds); }

const void* setTunedProblems(const void* setting) {
  return TunedProblems::set(static_cast<const std::vector<std::string>*>(setting));
}

bool setAutotune(bool on) { return std::exchange(options().autotune, on); }

constexpr GraftCudaGraphs table{graftCudaGraphsVersion,
                                makePool,
                                freePool,
                                capture,
                                beginUse,
                                endUse,
                                addCopies,
                                replay,
                                replayTimed,
                                kernelCount,
                                streamCount,
                                freeGraph,
                                isCapturing,
                                makeMarkers,
                                freeMarkers,
                                recordMarker,
                                markerTimes,
                                kernelsAfterMarker,
                                peakMemory,
                                setAutotune,
                                emptyAllocatorCache,
                                captureWriting,
                                setTuningSeconds,
                                guessedProblems,
                                setTunedProblems};

}  // namespace
}  // namespace graft::cuda

extern "C" __attribute__((visibility("default"))) const GraftCudaGraphs* graft_cuda_graphs() {
  return &graft::cuda::table;
}
