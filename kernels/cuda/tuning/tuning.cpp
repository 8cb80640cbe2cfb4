#include "kernels/cuda/tuning/tuning.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/graphs/exclusive_streams.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {

GemmCache& cacheOf(int device) {
  return gemmCache(at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device))->name, cublasLtGetVersion());
}

Scratch::Scratch(size_t bytes)
    : data_(bytes ? c10::cuda::CUDACachingAllocator::get()->allocate(bytes) : c10::DataPtr()) {}

std::string keyOf(const GemmArgs& a) {
  const void* pointers[] = {a.x, a.w, a.out, a.bias, a.residual};
  const bool all = std::ranges::all_of(pointers, [](const void* p) { return aligned(p, 16); });
  // 2: cuBLASLt adds it itself, which choices of older versions did not know.
  const int residual = !a.residual ? 0 : a.activation == Activation::kNone ? 2 : 1;
  return fmt::format("{}-m{}n{}k{}-ld{},{},{},{}-b{}r{}a{}-{}{}{}", static_cast<int>(a.dtype), a.m, a.n, a.k, a.ldx,
                     a.ldw, a.ldr, a.ldo, a.bias != nullptr, residual, static_cast<int>(a.activation),
                     all ? "aligned" : "unaligned", a.constantWeights && a.pdl ? "-ahead" : "",
                     a.dtype == Dtype::kFloat && usesTf32() ? "-tf32" : "");
}

WeightCopies::WeightCopies(const GemmArgs& a, cudaStream_t stream) {
  const size_t bytes = static_cast<size_t>(a.n) * a.ldw * bytesOf(a.dtype);
  const size_t span = (static_cast<size_t>(a.n - 1) * a.ldw + a.k) * bytesOf(a.dtype);
  const size_t copies = std::clamp<size_t>((size_t{96} << 20) / std::max<size_t>(bytes, 1), 1, 12);
  for (size_t i = 0; i < copies; ++i) {
    buffers_.emplace_back(bytes);
    C10_CUDA_CHECK(cudaMemcpyAsync(buffers_.back().get(), a.w, span, cudaMemcpyDeviceToDevice, stream));
    copies_.push_back(buffers_.back().get());
  }
}

c10::cuda::CUDAStream tuningStream() {
  static std::mutex mutex;
  static auto* streams = new std::map<c10::DeviceIndex, ExclusiveStreams>;  // never destroyed
  const std::lock_guard lock(mutex);
  const c10::DeviceIndex device = c10::cuda::current_device();
  return streams->try_emplace(device, device).first->second.get(0);
}

double timeCalls(const std::function<bool(int)>& call, c10::cuda::CUDAStream stream, double limit, int replays) {
  constexpr int kCalls = 12;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (!call(0)) return -1;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  bool ran = true;
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < kCalls && ran; ++i) ran = call(i);
  C10_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  double median = -1;
  if (ran && cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess) {
    cudaEvent_t begin, end;
    C10_CUDA_CHECK(cudaEventCreate(&begin));
    C10_CUDA_CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int r = 0; r < replays; ++r) {
      C10_CUDA_CHECK(cudaEventRecord(begin, stream));
      C10_CUDA_CHECK(cudaGraphLaunch(executable, stream));
      C10_CUDA_CHECK(cudaEventRecord(end, stream));
      C10_CUDA_CHECK(cudaEventSynchronize(end));
      float ms = 0;
      C10_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (r >= 1) times.push_back(ms * 1e3f / kCalls);
      if (r == 2 && *std::min_element(times.begin(), times.end()) > limit) break;
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    median = times[times.size() / 2];
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
  }
  cudaGraphDestroy(graph);
  cudaGetLastError();
  return median;
}

std::vector<std::pair<double, int>> timeCandidates(int count, const std::function<double(int, double, int)>& time) {
  std::vector<std::pair<double, int>> timed;
  double best = 1e30;
  for (int candidate = 0; candidate < count; ++candidate) {
    const double t = time(candidate, best * 1.5, 8);
    if (t < 0) continue;
    timed.emplace_back(t, candidate);
    best = std::min(best, t);
  }
  std::sort(timed.begin(), timed.end());
  const size_t close = std::min<size_t>(timed.size(), 6);
  for (size_t i = 0; i < close; ++i) timed[i].first = time(timed[i].second, 1e30, 40);
  std::sort(timed.begin(), timed.begin() + close);
  return timed;
}

}  // namespace graft::cuda
