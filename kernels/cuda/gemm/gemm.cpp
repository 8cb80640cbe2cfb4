#include "kernels/cuda/gemm/gemm.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/cublaslt.h"
#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/gemm_cache.h"
#include "kernels/cuda/tuning/tuning.h"

namespace graft::cuda {
namespace {

enum class Kind { kTile, kPersistent, kRows, kLt, kLtBias, kNormFirst };
struct Way {
  Kind kind = Kind::kLt;
  int number = 0;  // tile or rows variant, rows of a cluster, or place in cuBLASLt's list
  // With a norm after it: the norm, not the product, adds bias and residual. With one before it, kRows makes both and
  // kNormFirst is a norm and then the product's own best way.
  bool apart = false;
};

// A product, and the norm of its output's rows after it or of its x's rows before it, or neither.
struct Problem {
  const GemmArgs& a;
  const NormArgs* after = nullptr;
  const NormArgs* before = nullptr;
};

constexpr const char* kApart = "-apart";

std::string nameOf(Way w) {
  const char* end = w.apart ? kApart : "";
  switch (w.kind) {
    case Kind::kTile: {
      const TileVariant v = tileVariant(w.number);
      return fmt::format("tile-{}x{}-{}x{}-split{}-stages{}x{}{}{}", v.bm, v.bn, v.clusterM, v.clusterN, v.split,
                         v.stages, v.deep, v.registerGelu ? "-gelu" : "", end);
    }
    case Kind::kPersistent:
      return fmt::format("persistent-{}x1{}", w.number, end);
    case Kind::kRows: {
      const RowsVariant v = rowsVariant(w.number);
      return fmt::format("rows-{}x{}-{}-split{}{}", v.warps, v.chunks, v.columns * 16, v.split, end);
    }
    case Kind::kNormFirst:
      return "norm-first";
    case Kind::kLt:
      return fmt::format("cublaslt-{}{}", w.number, end);
    case Kind::kLtBias:
      return fmt::format("cublaslt-bias-{}{}", w.number, end);
  }
  return "";
}

constexpr int kLtMost = 24;
// What is tried again inside a captured model: ways up to so much slower than the fastest, and so many.
constexpr double kClose = 1.25;
constexpr int kMostRivals = 6;

std::vector<Way> allWays() {
  std::vector<Way> ways;
  for (int i = 0; i < tileVariantCount(); ++i) ways.push_back({Kind::kTile, i});
  for (int rows : {1, 2}) ways.push_back({Kind::kPersistent, rows});
  for (int i = 0; i < rowsVariantCount(); ++i) ways.push_back({Kind::kRows, i});
  for (int i = 0; i < kLtMost; ++i) ways.push_back({Kind::kLt, i});
  for (int i = 0; i < kLtMost; ++i) ways.push_back({Kind::kLtBias, i});
  return ways;
}

bool wayNamed(std::string name, Way& way) {
  const bool apart = name.ends_with(kApart);
  if (apart) name.erase(name.rfind(kApart));
  std::vector<Way> known = allWays();
  known.push_back({Kind::kNormFirst, 0});
  for (Way w : known) {
    if (nameOf(w) == name) {
      way = w;
      way.apart = apart;
      return true;
    }
  }
  return false;
}

// cuBLASLt's lists are the same for the same problem; asking takes tens of microseconds, so they are kept.
std::mutex ltMutex;
const std::vector<LtAlgorithm>& ltList(const GemmArgs& a, bool bias) {
  static std::unordered_map<std::string, std::vector<LtAlgorithm>> lists;
  const std::string key = fmt::format("{}/{}/{}", keyOf(a), bias, c10::cuda::current_device());
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
    case Kind::kRows:
      if (hopper()) status = launchGemmRows(a, nullptr, w.number, stream);
      break;
    case Kind::kNormFirst:
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

void run(const Problem& problem, cudaStream_t stream);

// With a norm after it: x of the norm is the product's output; the way says which of the two adds the product's bias
// and residual. With one before it, the product's x is the norm's output.
bool tryWay(const Problem& problem, Way w, cudaStream_t stream) {
  if (problem.before) {
    if (w.kind == Kind::kRows) {
      const cudaError_t status =
          hopper() ? launchGemmRows(problem.a, problem.before, w.number, stream) : cudaErrorNotSupported;
      if (status == cudaErrorNotSupported) return false;
      report("linear_norm_linear", status);
      return true;
    }
    if (w.kind != Kind::kNormFirst) return false;
    report("linear_norm_linear", launchNorm(*problem.before, stream));
    run({problem.a}, stream);
    return true;
  }
  if (!problem.after) return tryWay(problem.a, w, stream);
  GemmArgs product = problem.a;
  NormArgs after = *problem.after;
  after.x = product.out;
  if (w.apart) {
    after.inputBias = std::exchange(product.bias, nullptr);
    after.residual = std::exchange(product.residual, nullptr), after.ldr = problem.a.ldr;
  }
  if (!tryWay(product, w, stream)) return false;
  report("linear_add_layer_norm", launchNorm(after, stream));
  return true;
}

// Whether a way is worth timing: the persistent kernel has nothing to offer for a handful of tiles, nor small tiles for
// a great many.
bool promising(const GemmArgs& a, Way w) {
  if (w.kind == Kind::kPersistent) return double(a.m) * a.n / (128 * 192) >= 48;
  if (w.kind == Kind::kRows) return a.m <= 32;
  if (w.kind == Kind::kTile && a.m > 2048) return tileVariant(w.number).bm > 64 && tileVariant(w.number).split == 1;
  return true;
}

// Ways are timed with a small kernel after each product, its norm or else one of our own, because products rarely
// follow one another directly: a way that fills the processors' shared memory, or waits for all before it to end, costs
// its neighbours time.
//
// A workspace under our own captures is the block that the first, uncaptured call has just given back: the caching
// allocator does not know of these captures. That is safe because all runs on one stream and is awaited before the
// memory is used otherwise.
Way tune(const Problem& problem, std::string& log) {
  const GemmArgs& a = problem.a;
  const NormArgs* norm = problem.after;
  const auto stream = tuningStream();
  // The inputs may still be in the making on the caller's stream.
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  const c10::cuda::CUDAStreamGuard guard(stream);
  const WeightCopies weights(a, stream);
  GemmArgs mine = a;
  const Scratch out(static_cast<size_t>(a.m) * a.ldo * bytesOf(a.dtype));
  mine.out = out.get();
  // A norm of the output's rows, at most as many columns as a warp takes.
  NormArgs between;
  const int64_t columns = norm ? a.n : std::min<int64_t>(a.n, 768);
  const Scratch normed(static_cast<size_t>(a.m) * columns * bytesOf(a.dtype));
  if (norm) between = *norm;
  between.x = out.get(), between.out = normed.get(), between.dtype = a.dtype, between.pdl = a.pdl;
  between.rows = a.m, between.n = columns, between.ldx = a.ldo;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));

  std::vector<Way> ways = allWays();
  if (problem.before) ways.push_back({Kind::kNormFirst, 0});
  if (norm) {
    for (Way w : allWays()) {
      if (w.kind != Kind::kLtBias) ways.push_back({w.kind, w.number, true});
    }
  }
  const auto timed = race(static_cast<int>(ways.size()), [&](int number, double giveUp, int replays) {
    const Way w = ways[number];
    if (!promising(a, w)) return -1.0;
    const auto call = [&](int i) {
      mine.w = weights[i];
      if (norm) return tryWay({mine, &between}, w, stream);
      if (!tryWay({mine, nullptr, problem.before}, w, stream)) return false;
      report("linear", launchNorm(between, stream));
      return true;
    };
    return timeCalls(call, stream, giveUp, replays);
  });
  TORCH_CHECK(!timed.empty(), "graft::linear: no kernel for ", a.m, "x", a.n, "x", a.k);
  for (size_t i = 0; i < timed.size() && i < 8; ++i)
    log += fmt::format(" {}={:.2f}us", nameOf(ways[timed[i].second]), timed[i].first);
  return ways[timed.front().second];
}

// Without timings: the tile kernel with the least estimated work per SM for few rows, the persistent one for many.
Way guess(const GemmArgs& a) {
  const bool ours = hopper() && a.dtype != Dtype::kFloat;
  if (!ours) return {a.bias ? Kind::kLtBias : Kind::kLt, 0};
  const double tiles = double(a.m) * a.n / (128 * 192);
  for (int i = 0; a.m <= 32 && i < rowsVariantCount(); ++i) {
    const RowsVariant v = rowsVariant(i);
    const int64_t reach = int64_t{v.warps} * v.chunks * 32 * v.split;
    if (a.k <= reach && a.k * 4 > reach * 3) return {Kind::kRows, i};
  }
  const bool persistent = !a.residual || a.activation == Activation::kNone;
  if (tiles > 200 && persistent) return {Kind::kPersistent, 2};
  Way best{Kind::kTile, 0};
  double least = 1e30;
  for (int i = 0; i < tileVariantCount(); ++i) {
    const TileVariant v = tileVariant(i);
    if ((a.k + 63) / 64 / v.deep < v.split || v.registerGelu) continue;
    const int64_t blocks = (a.m + v.bm - 1) / v.bm * ((a.n + v.bn - 1) / v.bn) * v.split;
    const double waves = double((blocks + 131) / 132);
    const double slice = std::max(v.bm * v.bn / 2048.0 * 64 / 64, (v.bm + v.bn) * 128 / 40.0 / 8) + 30;
    const double cost =
        waves * ((a.k + 63) / 64 / double(v.split) * slice + 900 + (v.split > 1 ? 500 : 0) + v.bm * v.bn / 40.0);
    if (cost < least) least = cost, best = {Kind::kTile, i};
  }
  return best;
}

struct Choice {
  Way way;
  std::vector<Way> rivals;  // that came close, this one first
  bool inPlace = false;     // decided inside a captured model
};
struct Choices {
  std::recursive_mutex mutex;  // a norm and the product after it are tried out together: that one is chosen meanwhile
  std::unordered_map<std::string, Choice> byProblem;  // a problem: the GPU's number and the key
};
Choices& choices() {
  static Choices all;
  return all;
}
thread_local std::vector<std::string>* noted = nullptr;

constexpr char kInPlaceMark = '*';  // at the end of a choice on disk

GemmCache& cacheOf(int device) {
  return gemmCache(at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device))->name, cublasLtGetVersion());
}

// A line of the cache: the choice, then " way=1.23us" for each of the fastest.
std::optional<Choice> stored(const std::string& key, int device) {
  const auto line = cacheOf(device).find(key);
  if (!line) return std::nullopt;
  Choice c;
  std::istringstream words(*line);
  std::string word;
  words >> word;
  if (word.ends_with(kInPlaceMark)) c.inPlace = true, word.pop_back();
  if (!wayNamed(word, c.way)) return std::nullopt;
  double fastest = 0;
  while (words >> word) {
    const size_t equals = word.find('=');
    Way way;
    if (equals == std::string::npos || !wayNamed(word.substr(0, equals), way)) continue;
    const double time = std::atof(word.c_str() + equals + 1);
    if (fastest == 0) fastest = time;
    if (time < fastest * kClose && static_cast<int>(c.rivals.size()) < kMostRivals) c.rivals.push_back(way);
  }
  return c;
}

Way choose(const Problem& p, bool mayTune) {
  const std::string key = keyOf(p.a) + (p.after ? "-norm" : p.before ? "-normed" : "");
  const int device = c10::cuda::current_device();
  const std::string problem = fmt::format("{}:{}", device, key);
  if (noted && std::find(noted->begin(), noted->end(), problem) == noted->end()) noted->push_back(problem);
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  if (const auto it = all.byProblem.find(problem); it != all.byProblem.end()) return it->second.way;
  if (const auto found = stored(key, device)) return (all.byProblem[problem] = *found).way;
  if (!mayTune || !options().autotune || capturing()) return p.before ? Way{Kind::kNormFirst, 0} : guess(p.a);
  std::string timings;
  const Way fastest = tune(p, timings);
  cacheOf(device).store(key, nameOf(fastest) + timings);
  return (all.byProblem[problem] = stored(key, device).value_or(Choice{fastest, {}, false})).way;
}

void run(const Problem& problem, cudaStream_t stream) {
  const GemmArgs& a = problem.a;
  if (a.k == 0) {
    const size_t size = static_cast<size_t>(bytesOf(a.dtype));
    C10_CUDA_CHECK(cudaMemset2DAsync(a.out, a.ldo * size, 0, a.n * size, a.m, stream));
    report("linear", launchEpilogue(a, a.out, a.ldo, stream));
    if (problem.after) report("linear_add_layer_norm", launchNorm(*problem.after, stream));
    return;
  }
  if (tryWay(problem, choose(problem, true), stream)) return;
  // A guess that does not apply (an odd width, an unaligned pointer): cuBLASLt takes what we do not.
  if (problem.before && tryWay(problem, {Kind::kNormFirst, 0}, stream)) return;
  if (a.bias && tryWay(problem, {Kind::kLtBias, 0}, stream)) return;
  TORCH_CHECK(tryWay(problem, {Kind::kLt, 0}, stream), "graft::linear: neither a kernel of ours nor cuBLASLt takes ",
              a.m, "x", a.n, "x", a.k, " with row strides ", a.ldx, ", ", a.ldw, ", ", a.ldo);
}

}  // namespace

void runGemm(const GemmArgs& a, c10::cuda::CUDAStream stream) { run({a}, stream); }

void runGemmNorm(const GemmArgs& a, const NormArgs& norm, c10::cuda::CUDAStream stream) {
  NormArgs after = norm;
  after.x = a.out, after.ldx = a.ldo;
  run({a, &after}, stream);
}

void runNormGemm(const NormArgs& norm, const GemmArgs& a, c10::cuda::CUDAStream stream) {
  run({a, nullptr, &norm}, stream);
}

NotedProblems::NotedProblems(std::vector<std::string>* problems) : before_(std::exchange(noted, problems)) {}
NotedProblems::~NotedProblems() { noted = before_; }

std::vector<std::string> rivalsOf(const std::string& problem) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto it = all.byProblem.find(problem);
  std::vector<std::string> names;
  if (it == all.byProblem.end() || it->second.inPlace) return names;
  names.push_back(nameOf(it->second.way));
  for (Way w : it->second.rivals) {
    if (std::string name = nameOf(w); name != names.front()) names.push_back(std::move(name));
  }
  return names;
}

void chooseWay(const std::string& problem, const std::string& name, bool forGood) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto it = all.byProblem.find(problem);
  if (it == all.byProblem.end() || !wayNamed(name, it->second.way) || !forGood) return;
  it->second.inPlace = true;
  const std::string key = problem.substr(problem.find(':') + 1);
  GemmCache& cache = cacheOf(std::atoi(problem.c_str()));
  std::string line = cache.find(key).value_or("");
  line.erase(0, line.find(' '));
  cache.store(key, name + kInPlaceMark + line);
}

std::string describeGemm(const GemmArgs& a) { return nameOf(choose({a}, false)); }

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
