#include "kernels/cuda/gemm/gemm_tuner.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/tuning.h"

namespace graft::cuda {
namespace {

using Kind = GemmAlgorithm::Kind;

// Whether an algorithm is worth timing: the persistent kernel cannot win with a handful of tiles, nor small tiles with
// thousands of rows.
bool isPromising(const GemmArgs& a, GemmAlgorithm algorithm) {
  if (algorithm.kind == Kind::kPersistent) return double(a.m) * a.n / (128 * 192) >= 48;
  if (algorithm.kind == Kind::kRows) return a.m <= 32;
  if (algorithm.kind == Kind::kTile && a.m > 2048) {
    const TileVariant v = tileVariant(algorithm.number);
    return v.bm > 64 && v.split == 1;
  }
  return true;
}

std::vector<GemmAlgorithm> algorithmsFor(const GemmProblem& problem) {
  std::vector<GemmAlgorithm> algorithms = allAlgorithms();
  if (problem.before) algorithms.push_back({Kind::kNormFirst, 0});
  if (problem.after) {
    for (GemmAlgorithm algorithm : allAlgorithms()) {
      if (algorithm.kind != Kind::kLtBias) algorithms.push_back({algorithm.kind, algorithm.number, true});
    }
  }
  return algorithms;
}

}  // namespace

// Each product is timed with a small kernel after it, its norm or else one of our own, because in a model products
// rarely follow one another directly. An algorithm that fills the SMs' shared memory, or waits for all earlier kernels
// to complete, delays that neighbour, which the timing must show.
//
// A workspace within timeCalls' captures is the block that the first, uncaptured call has just freed: the caching
// allocator does not know of these captures. That is safe because everything runs on one stream, and is complete before
// the memory is used for anything else.
std::vector<TimedAlgorithm> timeAlgorithms(const GemmProblem& problem) {
  const GemmArgs& a = problem.a;
  const NormArgs* norm = problem.after;
  const auto stream = tuningStream();
  // The inputs may still be written on the caller's stream.
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  const c10::cuda::CUDAStreamGuard guard(stream);
  const WeightCopies weights(a, stream);
  GemmArgs mine = a;
  const Scratch out(static_cast<size_t>(a.m) * a.ldo * bytesOf(a.dtype));
  mine.out = out.get();
  // The kernel after the product. Without a norm of the problem it is one of the output's rows, of at most as many
  // columns as one warp handles.
  NormArgs between;
  const int64_t columns = norm ? a.n : std::min<int64_t>(a.n, 768);
  const Scratch normed(static_cast<size_t>(a.m) * columns * bytesOf(a.dtype));
  if (norm) between = *norm;
  between.x = out.get(), between.out = normed.get(), between.dtype = a.dtype, between.pdl = a.pdl;
  between.rows = a.m, between.n = columns, between.ldx = a.ldo;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));

  const std::vector<GemmAlgorithm> algorithms = algorithmsFor(problem);
  const auto time = [&](int number, double limit, int replays) {
    const GemmAlgorithm algorithm = algorithms[number];
    if (!isPromising(a, algorithm)) return -1.0;
    const auto call = [&](int i) {
      mine.w = weights[i];
      if (norm) return runAlgorithm({mine, &between}, algorithm, stream);
      if (!runAlgorithm({mine, nullptr, problem.before}, algorithm, stream)) return false;
      report("linear", launchNorm(between, stream));
      return true;
    };
    return timeCalls(call, stream, limit, replays);
  };
  std::vector<TimedAlgorithm> timed;
  for (const auto& [microseconds, number] : timeCandidates(static_cast<int>(algorithms.size()), time))
    timed.push_back({algorithms[number], microseconds});
  TORCH_CHECK(!timed.empty(), "graft::linear: no kernel for ", a.m, "x", a.n, "x", a.k);
  return timed;
}

// The kernel for few rows if a variant's range of K fits, the persistent kernel for many rows, else the tile variant
// with the least estimated time: waves of 132 blocks times the estimated cycles of a block.
GemmAlgorithm guessAlgorithm(const GemmArgs& a) {
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
  GemmAlgorithm best{Kind::kTile, 0};
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

}  // namespace graft::cuda
