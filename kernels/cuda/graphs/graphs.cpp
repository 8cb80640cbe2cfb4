// CUDA graphs for whoever does not link CUDA: see kernels/capture/graphs.h.
#include "kernels/capture/graphs.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/graphs/event_markers.h"
#include "kernels/cuda/graphs/graph_copies.h"
#include "kernels/cuda/graphs/graph_support.h"
#include "kernels/cuda/graphs/streams.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

struct Pool {
  c10::DeviceIndex device;
  c10::MempoolId_t memory = at::cuda::graph_pool_handle();
  OwnStreams streams;
  c10::cuda::CUDAStream stream;  ///< the first; all captures share it: memory is reused on one stream only
  cudaEvent_t last = nullptr;    ///< the end of the last use
  cudaStream_t lastStream = nullptr;

  explicit Pool(c10::DeviceIndex d) : device(d), streams(d), stream(streams.get(0)) {
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&last, cudaEventDisableTiming));
  }
  ~Pool() {
    if (last) {
      cudaEventSynchronize(last);
      cudaEventDestroy(last);
    }
    (void)cudaGetLastError();
  }
};

struct Captured {
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  Pool* pool = nullptr;
  size_t kernels = 0, streams = 1;
  std::optional<GraphCopies> copies;
  cudaEvent_t start = nullptr, stop = nullptr;

  ~Captured() {
    if (start) cudaEventDestroy(start);
    if (stop) cudaEventDestroy(stop);
  }
};

void* makePool(int device) {
  const c10::cuda::CUDAGuard onDevice(static_cast<c10::DeviceIndex>(device));
  return new Pool(static_cast<c10::DeviceIndex>(device));
}

void freePool(void* pool) {
  const c10::cuda::CUDAGuard onDevice(static_cast<Pool*>(pool)->device);
  delete static_cast<Pool*>(pool);
}

/// Trying out algorithms and the runs before a capture leave memory behind that nobody will ask for again.
void releaseScratch() {
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) {
    // Somebody else is capturing: it is given back another time.
  }
}

/// Libraries keep a workspace for each thread and stream (32 MiB for cuBLAS on Hopper). The runs before a capture were
/// on the caller's stream, from now on it is another one. Only the default stream's is given back: no graph can have
/// been captured there that would still use it, and only this thread's, whose kernels are all through.
void releaseWorkspace() {
  if (c10::cuda::getCurrentCUDAStream() != c10::cuda::getDefaultCUDAStream()) return;
  const auto release = [](at::cuda::WorkspaceMapWithMutex& workspaces, void* handle) {
    const std::scoped_lock lock(workspaces.mutex);
    workspaces.map.erase({handle, nullptr});
  };
  // Asking for a handle makes the workspace where there is none.
  const auto any = [](at::cuda::WorkspaceMapWithMutex& workspaces) {
    const std::shared_lock lock(workspaces.mutex);
    return std::any_of(workspaces.map.begin(), workspaces.map.end(),
                       [](const auto& each) { return std::get<1>(each.first) == nullptr; });
  };
  auto& blas = at::cuda::cublas_handle_stream_to_workspace();
  auto& blasLt = at::cuda::cublaslt_handle_stream_to_workspace();
  if (!any(blas) && !any(blasLt)) return;
  release(blasLt, at::cuda::getCurrentCUDABlasLtHandle());
  release(blas, at::cuda::getCurrentCUDABlasHandle());
}

/// What is to be run: body(argument).
struct Body {
  int (*function)(void*);
  void* argument;

  bool operator()() const {
    try {
      return function(argument) != 0;
    } catch (...) {
      return false;
    }
  }
};

/// `run` runs the body, perhaps watched; false where what it did is no good.
template <class F>
std::unique_ptr<Captured> captureOnce(Pool& pool, c10::MempoolId_t memory, const F& run) {
  auto captured = std::make_unique<Captured>();
  captured->pool = &pool;
  {
    // The few bytes that PyTorch's random numbers take for graphs lie among the caller's, not alone in 2 MiB.
    const c10::cuda::CUDAStreamGuard onDefault(c10::cuda::getDefaultCUDAStream(pool.device));
    at::get_generator_or_default<at::CUDAGeneratorImpl>(std::nullopt, at::cuda::detail::getDefaultCUDAGenerator())
        ->register_graph(&captured->graph);
  }
  captured->graph.capture_begin(memory, cudaStreamCaptureModeThreadLocal);
  bool ran = false;
  try {
    ran = run();
  } catch (const std::exception&) {
  }
  if (!ran) {
    try {
      captured->graph.capture_end();  // ends the capture that the failing operator has made invalid
    } catch (const std::exception&) {
      (void)cudaGetLastError();
    }
    throw std::runtime_error("the model does something that cannot be captured");
  }
  captured->graph.capture_end();
  for (cudaGraphNode_t node : nodesOf(captured->graph.raw_cuda_graph())) captured->kernels += isKernel(node);
  captured->graph.instantiate();
  C10_CUDA_CHECK(cudaEventCreate(&captured->start));
  C10_CUDA_CHECK(cudaEventCreate(&captured->stop));
  return captured;
}

/// Milliseconds of one replay on the current stream, which it waits for.
float replayOnce(Captured& c) {
  const cudaStream_t stream = currentStream();
  C10_CUDA_CHECK(cudaEventRecord(c.start, stream));
  c.graph.replay();
  C10_CUDA_CHECK(cudaEventRecord(c.stop, stream));
  C10_CUDA_CHECK(cudaEventSynchronize(c.stop));
  float ms = 0;
  C10_CUDA_CHECK(cudaEventElapsedTime(&ms, c.start, c.stop));
  return ms;
}

/// Whether `b` takes less time than `a`, by more than chance, replayed in turn.
bool isFaster(Captured& a, Captured& b) {
  constexpr float kShort = 0.6f;  // ms: here a microsecond matters, and many replays cost little
  constexpr float kChance = 0.995f;
  const size_t replays = replayOnce(a) < kShort ? 31 : 15;
  std::vector<float> times[2];
  for (size_t i = 0; i < replays; ++i) {
    times[0].push_back(replayOnce(a));
    times[1].push_back(replayOnce(b));
  }
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + replays / 2, t.end());
  return times[1][replays / 2] < times[0][replays / 2] * kChance;
}

/// A product that is computed in several places of a model, and the ways that came close to one another alone.
struct Contest {
  std::string problem;
  std::vector<std::string> ways;
  std::string chosen;
};

/// Decides between ways to multiply that are close to one another: which is fastest depends on the kernels around it,
/// whose blocks start in the room that it leaves. One problem at a time, the whole model captured with each way; again
/// from the first problem while a round has changed something and no second is over, for what was best beside one
/// neighbour need not be beside another. What has been learnt is kept when something fails or the process is ended.
void chooseInPlace(const std::vector<std::string>& problems, Pool& pool, const Body& body) {
  constexpr int kRounds = 3;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  // One memory for all: they are replayed one after another, and what they leave in it nobody reads.
  const auto attempt = [&, memory = at::cuda::graph_pool_handle()] { return captureOnce(pool, memory, body); };
  std::vector<Contest> contests;
  for (const std::string& each : problems) {
    std::vector<std::string> ways = rivalsOf(each);
    if (!ways.empty()) contests.push_back({each, ways, ways[0]});
  }
  if (contests.empty()) return;
  releaseScratch();
  const Contest* open = nullptr;
  try {
    std::unique_ptr<Captured> best = attempt();
    bool changed = true;
    for (int round = 0; round < kRounds && changed; ++round) {
      if (round > 0 && std::chrono::steady_clock::now() > patience) break;
      changed = false;
      for (Contest& c : contests) {
        open = &c;
        const std::string before = c.chosen;
        for (const std::string& way : c.ways) {
          if (way == c.chosen || way == before) continue;
          chooseWay(c.problem, way, false);
          std::unique_ptr<Captured> other = attempt();
          if (isFaster(*best, *other)) best = std::move(other), c.chosen = way;
        }
        chooseWay(c.problem, c.chosen, true);
        changed |= c.chosen != before;
        open = nullptr;
      }
    }
  } catch (const std::exception&) {
    if (open) chooseWay(open->problem, open->chosen, false);
    (void)cudaGetLastError();
  }
  C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
}

/// Captured on the streams of a plan; throws where that does not come to what was observed.
std::unique_ptr<Captured> captureSpread(Pool& pool, c10::MempoolId_t memory, const Body& body,
                                        const ObservedRun& observed, const StreamPlan& plan) {
  SpreadRun spread(observed, plan, pool.streams);
  auto captured = captureOnce(pool, memory, [&] {
    spread.begin();
    const bool ran = body();
    return spread.finish() && ran;
  });
  captured->streams = plan.streams;
  return captured;
}

/// Whether the captured run would take less time on the streams of the plan. Run once as it is before that: what
/// libraries keep for each stream shall not lie in the graph's memory.
bool isFasterSpread(Captured& captured, Pool& pool, const Body& body, const ObservedRun& observed,
                    const StreamPlan& plan) {
  bool faster = false;
  try {
    {
      SpreadRun spread(observed, plan, pool.streams);
      spread.begin();
      const bool ran = body();
      faster = spread.finish() && ran;
    }
    C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
    if (faster) faster = isFaster(captured, *captureSpread(pool, at::cuda::graph_pool_handle(), body, observed, plan));
  } catch (const std::exception&) {
    (void)cudaGetLastError();
    faster = false;
  }
  C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
  return faster;
}

/// Captured for good: on one stream, or on several where the model has parts that do not need each other, and that is
/// faster. The body's last run is the one that was captured: its outputs are the graph's.
std::unique_ptr<Captured> captureBest(Pool& pool, const Body& body) {
  const uint32_t most = mostStreams();
  if (most < 2) return captureOnce(pool, pool.memory, body);
  Observer observer(c10::kCUDA, [&] { return capturedNodes(pool.stream.stream()); });
  marked = false;
  auto captured = captureOnce(pool, pool.memory, [&] {
    observer.start();
    const bool ran = body();
    observer.stop();
    return ran;
  });
  // A kernel that no operator launched (TorchScript's fuser does so) has no place in a plan.
  const bool known = !marked && observer.run().outside == 0;
  const auto plan = known ? planStreams(observer.run().steps, {.streams = most}) : std::nullopt;
  if (!plan) return captured;
  // The memory pool must not be without a graph meanwhile: the first one is kept until the other stands.
  std::unique_ptr<Captured> best;
  if (isFasterSpread(*captured, pool, body, observer.run(), *plan)) {
    try {
      best = captureSpread(pool, pool.memory, body, observer.run(), *plan);
    } catch (const std::exception&) {
      (void)cudaGetLastError();
    }
  }
  if (!best) best = captureOnce(pool, pool.memory, body);
  return best;
}

void* capture(void* place, int (*function)(void*), void* argument, char* error, size_t size) {
  try {
    const Body body{function, argument};
    auto* pool = static_cast<Pool*>(place);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    // Inputs and weights may still be on their way on the caller's stream, and other graphs in this memory.
    C10_CUDA_CHECK(cudaStreamSynchronize(currentStream()));
    C10_CUDA_CHECK(cudaEventSynchronize(pool->last));
    // What the runs before have left on other streams would be held beside what these take.
    releaseWorkspace();
    releaseScratch();
    const c10::cuda::CUDAStreamGuard onStream(pool->stream);
    std::vector<std::string> problems;
    for (int i = 0; i < 2; ++i) {
      const NotedProblems noting(i == 0 ? nullptr : &problems);
      if (!body()) throw std::runtime_error("the model does not run");
    }
    C10_CUDA_CHECK(cudaStreamSynchronize(pool->stream.stream()));
    if (options().autotune) chooseInPlace(problems, *pool, body);
    releaseScratch();
    auto captured = captureBest(*pool, body);
    // Outputs of the tuner's last attempt, and of captures that were not the best, have been there until now.
    releaseScratch();
    return captured.release();
  } catch (const std::exception& e) {
    tell(e, error, size);
    return nullptr;
  }
}

bool enter(void* place, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* pool = static_cast<Pool*>(place);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    if (currentStream() != pool->lastStream) C10_CUDA_CHECK(cudaStreamWaitEvent(currentStream(), pool->last, 0));
  });
}

bool leave(void* place, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* pool = static_cast<Pool*>(place);
    const c10::cuda::CUDAGuard onDevice(pool->device);
    pool->lastStream = currentStream();
    C10_CUDA_CHECK(cudaEventRecord(pool->last, pool->lastStream));
  });
}

bool addCopies(void* graph, size_t inputs, void* const* into, const size_t* inputBytes, size_t outputs,
               void* const* outOf, const size_t* outputBytes, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* captured = static_cast<Captured*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    captured->copies.emplace(captured->graph.raw_cuda_graph(), GraphBlocks{inputs, into, inputBytes},
                             GraphBlocks{outputs, outOf, outputBytes});
    captured->graph.instantiate();
  });
}

bool replay(void* graph, const void* const* from, void* const* to, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* captured = static_cast<Captured*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    if (captured->copies) captured->copies->aim(captured->graph.raw_cuda_graph_exec(), from, to);
    captured->graph.replay();
  });
}

/// Writes over twice the L2 cache, so that nothing of the last run is left in it.
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
    auto* captured = static_cast<Captured*>(graph);
    const c10::cuda::CUDAGuard onDevice(captured->pool->device);
    cudaStream_t stream = currentStream();
    if (flush) flushL2(stream);
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    if (captured->copies) captured->copies->aim(captured->graph.raw_cuda_graph_exec(), nullptr, nullptr);
    milliseconds = replayOnce(*captured);
  });
  return ran ? milliseconds : -1;
}

size_t kernelCount(void* graph) { return static_cast<Captured*>(graph)->kernels; }
size_t streamCount(void* graph) { return static_cast<Captured*>(graph)->streams; }

void freeGraph(void* graph) {
  auto* captured = static_cast<Captured*>(graph);
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

void emptyCache() { releaseScratch(); }

bool setAutotune(bool on) { return std::exchange(options().autotune, on); }

constexpr GraftCudaGraphs table{graftCudaGraphsVersion,
                                makePool,
                                freePool,
                                capture,
                                enter,
                                leave,
                                addCopies,
                                replay,
                                replayTimed,
                                kernelCount,
                                streamCount,
                                freeGraph,
                                capturing,
                                makeMarks,
                                freeMarks,
                                setMark,
                                markTimes,
                                markedKernels,
                                peakMemory,
                                setAutotune,
                                emptyCache};

}  // namespace
}  // namespace graft::cuda

extern "C" __attribute__((visibility("default"))) const GraftCudaGraphs* graft_cuda_graphs() {
  return &graft::cuda::table;
}
