#include "kernels/cuda/graphs/captured_graph.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/graphs/blas_workspaces.h"
#include "kernels/cuda/graphs/graph_support.h"

namespace graft::cuda {

Pool::Pool(c10::DeviceIndex d) : device(d), streams(d), stream(streams.get(0)) {
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&last, cudaEventDisableTiming));
}

Pool::~Pool() {
  if (last) {
    cudaEventSynchronize(last);
    cudaEventDestroy(last);
  }
  (void)cudaGetLastError();
}

CapturedGraph::~CapturedGraph() {
  if (start) cudaEventDestroy(start);
  if (stop) cudaEventDestroy(stop);
}

bool Body::operator()() const {
  try {
    return function(argument) != 0;
  } catch (...) {
    return false;
  }
}

void Body::reset() const {
  if (resetFunction && resetFunction(argument) == 0)
    throw std::runtime_error("the memory that the model writes cannot be brought back to what it was");
}

namespace {

/// Ends a capture that failed. CUDAGraph::capture_end() stops at the error that CUDA reports of such a capture.
/// LibTorch's allocator would then go on to reserve memory for it, and its random generator to refuse every later draw
/// of the process. So CUDA's capture ends here, and LibTorch ends one of an empty node in its place.
void discardCapture(at::cuda::CUDAGraph& graph, c10::cuda::CUDAStream stream) {
  const c10::cuda::CUDAStreamGuard onStream(stream);
  cudaGraph_t failed = nullptr;
  (void)cudaStreamEndCapture(stream, &failed);
  if (failed) (void)cudaGraphDestroy(failed);
  (void)cudaGetLastError();
  try {
    C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t empty = nullptr;
    cudaGraphNode_t node = nullptr;
    if (cudaStreamGetCaptureInfo(stream, &status, nullptr, &empty, nullptr, nullptr, nullptr) == cudaSuccess && empty)
      (void)cudaGraphAddEmptyNode(&node, empty, nullptr, 0);
    graph.capture_end();
  } catch (const std::exception&) {
    (void)cudaGetLastError();
  }
}

}  // namespace

std::unique_ptr<CapturedGraph> captureOnce(Pool& pool, c10::MempoolId_t memory, const std::function<bool()>& run) {
  auto captured = std::make_unique<CapturedGraph>();
  captured->pool = &pool;
  {
    // PyTorch allocates a few bytes for each graph's random numbers. On the default stream they share a segment with
    // the caller's memory; on the capture stream they would take a segment of 2 MiB.
    const c10::cuda::CUDAStreamGuard onDefault(c10::cuda::getDefaultCUDAStream(pool.device));
    at::get_generator_or_default<at::CUDAGeneratorImpl>(std::nullopt, at::cuda::detail::getDefaultCUDAGenerator())
        ->register_graph(&captured->graph);
  }
  keepBlasWorkspaces(pool.streams.all());
  captured->graph.capture_begin(memory, cudaStreamCaptureModeThreadLocal);
  bool ran = false;
  try {
    ran = run();
  } catch (const std::exception&) {
  }
  if (!ran) {
    discardCapture(captured->graph, pool.stream);
    throw std::runtime_error("the model does something that cannot be captured");
  }
  try {
    captured->graph.capture_end();
  } catch (const std::exception&) {
    discardCapture(captured->graph, pool.stream);
    throw;
  }
  keepBlasWorkspaces(pool.streams.all());
  for (cudaGraphNode_t node : nodesOf(captured->graph.raw_cuda_graph())) captured->kernels += isKernel(node);
  captured->graph.instantiate();
  C10_CUDA_CHECK(cudaEventCreate(&captured->start));
  C10_CUDA_CHECK(cudaEventCreate(&captured->stop));
  return captured;
}

float replayOnce(CapturedGraph& c) {
  const cudaStream_t stream = currentStream();
  C10_CUDA_CHECK(cudaEventRecord(c.start, stream));
  c.graph.replay();
  C10_CUDA_CHECK(cudaEventRecord(c.stop, stream));
  C10_CUDA_CHECK(cudaEventSynchronize(c.stop));
  float ms = 0;
  C10_CUDA_CHECK(cudaEventElapsedTime(&ms, c.start, c.stop));
  return ms;
}

bool isFaster(CapturedGraph& a, CapturedGraph& b, const Body& body) {
  constexpr float kShort = 0.6f;    // ms: below, a microsecond matters, and more replays cost little
  constexpr float kNoise = 0.995f;  // a ratio of medians above this may be chance
  const auto replay = [&](CapturedGraph& c) {
    body.reset();
    return replayOnce(c);
  };
  constexpr float kEnough = 300;  // ms for all replays: long runs differ less from each other
  const size_t most = replay(a) < kShort ? 31 : 15, fewest = 3;
  std::vector<float> times[2];
  float sum = 0;
  while (times[0].size() < most && (times[0].size() < fewest || sum < kEnough)) {
    times[0].push_back(replay(a));
    times[1].push_back(replay(b));
    sum += times[0].back() + times[1].back();
  }
  const size_t middle = times[0].size() / 2;
  for (auto& t : times) std::nth_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(middle), t.end());
  return times[1][middle] < times[0][middle] * kNoise;
}

}  // namespace graft::cuda
