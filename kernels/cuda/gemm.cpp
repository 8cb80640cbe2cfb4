#include "kernels/cuda/gemm.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/gemm_cache.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

namespace Alloc = c10::cuda::CUDACachingAllocator;

// A buffer of the caching allocator on the current stream (and pool, under capture).
class Scratch {
 public:
  explicit Scratch(size_t bytes) : data_(bytes ? Alloc::get()->allocate(bytes) : c10::DataPtr()) {}
  void* get() const { return data_.get(); }

 private:
  c10::DataPtr data_;
};

// What makes two calls the same problem for timing.
std::string keyOf(const GemmArgs& a) {
  const auto al = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const bool aligned = al(a.x) && al(a.w) && al(a.out) && al(a.bias) && al(a.residual);
  return fmt::format("{}-m{}n{}k{}-ld{},{},{},{}-b{}r{}a{}-{}{}", static_cast<int>(a.dtype), a.m, a.n, a.k, a.ldx,
                     a.ldw, a.ldr, a.ldo, a.bias != nullptr, a.residual != nullptr, static_cast<int>(a.activation),
                     aligned ? "aligned" : "unaligned", a.constantWeights && a.pdl ? "-ahead" : "");
}

enum class Kind { kTile, kPersistent, kLt, kLtBias };
struct Way {
  Kind kind = Kind::kLt;
  int number = 0;  // tile variant, rows of a cluster, or place in cuBLASLt's list
};

std::string nameOf(Way w) {
  switch (w.kind) {
    case Kind::kTile: {
      const TileVariant v = tileVariant(w.number);
      return fmt::format("tile-{}x{}-{}x{}-split{}-stages{}x{}", v.bm, v.bn, v.clusterM, v.clusterN, v.split, v.stages,
                         v.deep);
    }
    case Kind::kPersistent:
      return fmt::format("persistent-{}x1", w.number);
    case Kind::kLt:
      return fmt::format("cublaslt-{}", w.number);
    case Kind::kLtBias:
      return fmt::format("cublaslt-bias-{}", w.number);
  }
  return "";
}

constexpr int kLtMost = 24;

std::vector<Way> allWays() {
  std::vector<Way> ways;
  for (int i = 0; i < tileVariantCount(); ++i) ways.push_back({Kind::kTile, i});
  for (int rows : {1, 2}) ways.push_back({Kind::kPersistent, rows});
  for (int i = 0; i < kLtMost; ++i) ways.push_back({Kind::kLt, i});
  for (int i = 0; i < kLtMost; ++i) ways.push_back({Kind::kLtBias, i});
  return ways;
}

bool wayNamed(const std::string& name, Way& way) {
  for (Way w : allWays()) {
    if (nameOf(w) == name) {
      way = w;
      return true;
    }
  }
  return false;
}

// cuBLASLt's lists are the same for the same problem; asking takes tens of microseconds, so they are kept.
std::mutex ltMutex;
const std::vector<LtAlgorithm>& ltList(const GemmArgs& a, bool bias) {
  static std::unordered_map<std::string, std::vector<LtAlgorithm>> lists;
  const std::string key =
      fmt::format("{}/{}/{}/{}", keyOf(a), bias, c10::cuda::current_device(), at::globalContext().allowTF32CuBLAS());
  const std::lock_guard lock(ltMutex);
  auto [it, fresh] = lists.try_emplace(key);
  if (fresh) it->second = ltAlgorithms(a, bias, kLtMost);
  return it->second;
}

bool tryWay(const GemmArgs& a, Way w, cudaStream_t stream) {
  cudaError_t status = cudaErrorNotSupported;
  switch (w.kind) {
    case Kind::kTile:
      if (hopper()) status = launchGemmTile(a, w.number, stream);
      break;
    case Kind::kPersistent:
      if (hopper()) status = launchGemmPersistent(a, w.number, stream);
      break;
    case Kind::kLt:
    case Kind::kLtBias: {
      const bool bias = w.kind == Kind::kLtBias;
      if (bias && !a.bias) return false;
      const auto& list = ltList(a, bias);
      if (w.number >= static_cast<int>(list.size())) return false;
      const Scratch workspace(list[w.number].workspace);
      if (ltRun(a, bias, list[w.number], workspace.get(), stream) != CUBLAS_STATUS_SUCCESS) return false;
      GemmArgs rest = a;
      if (bias) rest.bias = nullptr;
      if (!rest.bias && !rest.residual && rest.activation == Activation::kNone) return true;
      status = launchEpilogue(rest, a.out, a.ldo, stream);
      break;
    }
  }
  if (status == cudaErrorNotSupported) return false;
  report("linear", status);
  return true;
}

bool capturing() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None; }

// Median time of dependent calls replayed as a graph, in microseconds per call and the small kernel after it; negative
// if the way does not apply. The small kernel is there because products rarely follow one another directly: a way that
// fills the processors' shared memory, or waits for all before it to end, costs its neighbours time. The calls rotate
// over copies of the weights, so that they come from memory as they do in a model larger than the L2.
double timeWay(const GemmArgs& a, Way w, const std::vector<const void*>& weights, const NormArgs& between,
               c10::cuda::CUDAStream stream, double give_up, int replays = 8) {
  constexpr int kCalls = 12;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  GemmArgs mine = a;
  mine.w = weights[0];
  if (!tryWay(mine, w, stream)) return -1;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  bool ran = true;
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < kCalls && ran; ++i) {
    mine.w = weights[i % weights.size()];
    ran = tryWay(mine, w, stream);
    if (ran && between.rows) report("linear", launchNorm(between, stream));
  }
  C10_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  double best = -1;
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
      if (r == 2 && *std::min_element(times.begin(), times.end()) > give_up) break;
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    best = times[times.size() / 2];
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
  }
  cudaGraphDestroy(graph);
  cudaGetLastError();
  return best;
}

// A workspace under our own captures is the block that the first, uncaptured call has just given back: the caching
// allocator does not know of these captures. That is safe because all runs on one stream and is awaited before the
// memory is used otherwise.
Way tune(const GemmArgs& a, std::string& log) {
  const auto stream = c10::cuda::getStreamFromPool(false, c10::cuda::current_device());
  // The inputs may still be in the making on the caller's stream.
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  const c10::cuda::CUDAStreamGuard guard(stream);
  const size_t weightBytes = static_cast<size_t>(a.n) * a.ldw * bytesOf(a.dtype);
  const size_t copies = std::clamp<size_t>((size_t{96} << 20) / std::max<size_t>(weightBytes, 1), 1, 12);
  std::vector<Scratch> kept;
  std::vector<const void*> weights;
  const size_t span = (static_cast<size_t>(a.n - 1) * a.ldw + a.k) * bytesOf(a.dtype);
  for (size_t i = 0; i < copies; ++i) {
    kept.emplace_back(weightBytes);
    C10_CUDA_CHECK(cudaMemcpyAsync(kept.back().get(), a.w, span, cudaMemcpyDeviceToDevice, stream));
    weights.push_back(kept.back().get());
  }
  GemmArgs mine = a;
  const Scratch out(static_cast<size_t>(a.m) * a.ldo * bytesOf(a.dtype));
  mine.out = out.get();
  // A norm of the output's rows, at most as many columns as a warp takes.
  NormArgs between;
  const Scratch normed(static_cast<size_t>(a.m) * std::min<int64_t>(a.n, 768) * bytesOf(a.dtype));
  between.x = out.get(), between.out = normed.get(), between.dtype = a.dtype, between.pdl = a.pdl;
  between.rows = a.m, between.n = std::min<int64_t>(a.n, 768), between.ldx = a.ldo;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));

  std::vector<std::pair<double, Way>> timed;
  double best = 1e30;
  for (Way w : allWays()) {
    // The persistent kernel has nothing to offer for a handful of tiles, nor small tiles for a great many.
    const double tiles = double(a.m) * a.n / (128 * 192);
    if (w.kind == Kind::kPersistent && tiles < 48) continue;
    if (w.kind == Kind::kTile && tileVariant(w.number).bm == 64 && a.m > 2048) continue;
    if (w.kind == Kind::kTile && tileVariant(w.number).split > 1 && a.m > 2048) continue;
    const double t = timeWay(mine, w, weights, between, stream, best * 1.5);
    if (t < 0) continue;
    timed.emplace_back(t, w);
    best = std::min(best, t);
  }
  TORCH_CHECK(!timed.empty(), "graft::linear: no kernel for ", a.m, "x", a.n, "x", a.k);
  std::sort(timed.begin(), timed.end(), [](const auto& l, const auto& r) { return l.first < r.first; });
  // The best few once more and longer: they are often closer together than eight replays can tell.
  const size_t close = std::min<size_t>(timed.size(), 6);
  for (size_t i = 0; i < close; ++i)
    timed[i].first = timeWay(mine, timed[i].second, weights, between, stream, 1e30, 40);
  std::sort(timed.begin(), timed.begin() + close, [](const auto& l, const auto& r) { return l.first < r.first; });
  for (size_t i = 0; i < timed.size() && i < 8; ++i)
    log += fmt::format(" {}={:.2f}us", nameOf(timed[i].second), timed[i].first);
  return timed.front().second;
}

// Without timings: the tile kernel with the least estimated work per SM for few rows, the persistent one for many.
Way guess(const GemmArgs& a) {
  const bool ours = hopper() && a.dtype != Dtype::kFloat;
  if (!ours) return {a.bias ? Kind::kLtBias : Kind::kLt, 0};
  const double tiles = double(a.m) * a.n / (128 * 192);
  const bool persistent = !a.residual || a.activation == Activation::kNone;
  if (tiles > 200 && persistent) return {Kind::kPersistent, 2};
  Way best{Kind::kTile, 0};
  double least = 1e30;
  for (int i = 0; i < tileVariantCount(); ++i) {
    const TileVariant v = tileVariant(i);
    if ((a.k + 63) / 64 / v.deep < v.split) continue;
    const int64_t blocks = (a.m + v.bm - 1) / v.bm * ((a.n + v.bn - 1) / v.bn) * v.split;
    const double waves = double((blocks + 131) / 132);
    const double slice = std::max(v.bm * v.bn / 2048.0 * 64 / 64, (v.bm + v.bn) * 128 / 40.0 / 8) + 30;
    const double cost =
        waves * ((a.k + 63) / 64 / double(v.split) * slice + 900 + (v.split > 1 ? 500 : 0) + v.bm * v.bn / 40.0);
    if (cost < least) least = cost, best = {Kind::kTile, i};
  }
  return best;
}

std::mutex choiceMutex;
Way choose(const GemmArgs& a, bool mayTune) {
  static std::unordered_map<std::string, Way> choices;  // by device and key
  const std::string key = keyOf(a);
  const std::string full = fmt::format("{}:{}", c10::cuda::current_device(), key);
  const std::lock_guard lock(choiceMutex);
  if (const auto it = choices.find(full); it != choices.end()) return it->second;
  Way way;
  if (const auto stored = gemmCache().find(key); stored && wayNamed(*stored, way)) return choices[full] = way;
  if (!mayTune || !options().autotune || capturing()) return guess(a);
  std::string log;
  way = tune(a, log);
  gemmCache().store(key, nameOf(way), log);
  return choices[full] = way;
}

}  // namespace

void runGemm(const GemmArgs& a, c10::cuda::CUDAStream stream) {
  const Way way = choose(a, true);
  if (tryWay(a, way, stream)) return;
  // A guess that does not apply (an odd width, an unaligned pointer): cuBLASLt takes what we do not.
  if (a.bias && tryWay(a, {Kind::kLtBias, 0}, stream)) return;
  TORCH_CHECK(tryWay(a, {Kind::kLt, 0}, stream), "graft::linear: neither a kernel of ours nor cuBLASLt takes ", a.m,
              "x", a.n, "x", a.k, " with row strides ", a.ldx, ", ", a.ldw, ", ", a.ldo);
}

std::string describeGemm(const GemmArgs& a) { return nameOf(choose(a, false)); }

std::string gemmWays() {
  std::string names;
  for (Way w : allWays()) names += nameOf(w) + "\n";
  return names;
}

bool runGemmWay(const GemmArgs& a, const std::string& name, c10::cuda::CUDAStream stream) {
  Way way;
  TORCH_CHECK(wayNamed(name, way), "graft: no way to multiply is called ", name);
  return tryWay(a, way, stream);
}

}  // namespace graft::cuda
