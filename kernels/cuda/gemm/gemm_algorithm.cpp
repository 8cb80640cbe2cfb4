#include "kernels/cuda/gemm/gemm_algorithm.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/gemm/cublaslt.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/tuning.h"

namespace graft::cuda {
namespace {

using Kind = GemmAlgorithm::Kind;

constexpr std::string_view kApart = "-apart";
constexpr int kMaxLtAlgorithms = 24;

// cuBLASLt's heuristics give the same list for the same problem. A query takes tens of microseconds, so the lists are
// kept.
const std::vector<LtAlgorithm>& ltList(const GemmArgs& a, bool bias) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::vector<LtAlgorithm>> lists;
  // The heuristics are told how the residual is aligned, where cuBLASLt reads it.
  const auto begin = ltAddsResidual(a, bias) ? reinterpret_cast<uintptr_t>(a.residual) % 256 : 0;
  const std::string key = fmt::format("{}/{}/{}/{}", keyOf(a), bias, begin, c10::cuda::current_device());
  const std::lock_guard lock(mutex);
  auto [it, fresh] = lists.try_emplace(key);
  if (fresh) it->second = ltAlgorithms(a, bias, kMaxLtAlgorithms);
  return it->second;
}

bool runLt(const GemmArgs& a, bool bias, int number, cudaStream_t stream) {
  if (bias && !a.bias) return false;
  const auto& list = ltList(a, bias);
  if (number >= static_cast<int>(list.size())) return false;
  const Scratch workspace(list[number].workspace);
  if (ltRun(a, bias, list[number], workspace.get(), stream) != CUBLAS_STATUS_SUCCESS) return false;
  GemmArgs rest = a;
  if (bias) rest.bias = nullptr;
  if (ltAddsResidual(a, bias)) rest.residual = nullptr;
  if (!rest.bias && !rest.residual && rest.activation == Activation::kNone) return true;
  const cudaError_t status = launchEpilogue(rest, a.out, a.ldo, stream);
  if (status == cudaErrorNotSupported) return false;
  report("linear", status);
  return true;
}

bool runProduct(const GemmArgs& a, GemmAlgorithm algorithm, cudaStream_t stream) {
  cudaError_t status = cudaErrorNotSupported;
  switch (algorithm.kind) {
    case Kind::kTile:
      if (hopper()) status = launchGemmTile(a, algorithm.number, stream);
      break;
    case Kind::kPersistent:
      if (hopper()) status = launchGemmPersistent(a, algorithm.number, stream);
      break;
    case Kind::kRows:
      if (hopper()) status = launchGemmRows(a, nullptr, algorithm.number, stream);
      break;
    case Kind::kNormFirst:
      break;
    case Kind::kLt:
      return runLt(a, false, algorithm.number, stream);
    case Kind::kLtBias:
      return runLt(a, true, algorithm.number, stream);
  }
  if (status == cudaErrorNotSupported) return false;
  report("linear", status);
  return true;
}

bool runAfterNorm(const GemmProblem& problem, GemmAlgorithm algorithm, cudaStream_t stream) {
  if (algorithm.kind == Kind::kRows) {
    const cudaError_t status =
        hopper() ? launchGemmRows(problem.a, problem.before, algorithm.number, stream) : cudaErrorNotSupported;
    if (status == cudaErrorNotSupported) return false;
    report("linear_norm_linear", status);
    return true;
  }
  if (algorithm.kind != Kind::kNormFirst) return false;
  report("linear_norm_linear", launchNorm(*problem.before, stream));
  runGemm(problem.a, stream);
  return true;
}

}  // namespace

std::string nameOf(GemmAlgorithm algorithm) {
  const std::string_view end = algorithm.apart ? kApart : "";
  switch (algorithm.kind) {
    case Kind::kTile: {
      const TileVariant v = tileVariant(algorithm.number);
      return fmt::format("tile-{}x{}-{}x{}-split{}-stages{}x{}{}{}", v.bm, v.bn, v.clusterM, v.clusterN, v.split,
                         v.stages, v.deep, v.registerGelu ? "-gelu" : "", end);
    }
    case Kind::kPersistent:
      return fmt::format("persistent-{}x1{}", algorithm.number, end);
    case Kind::kRows: {
      const RowsVariant v = rowsVariant(algorithm.number);
      return fmt::format("rows-{}x{}-{}-split{}{}", v.warps, v.chunks, v.columns * 16, v.split, end);
    }
    case Kind::kNormFirst:
      return "norm-first";
    case Kind::kLt:
      return fmt::format("cublaslt-{}{}", algorithm.number, end);
    case Kind::kLtBias:
      return fmt::format("cublaslt-bias-{}{}", algorithm.number, end);
  }
  return "";
}

std::vector<GemmAlgorithm> allAlgorithms() {
  std::vector<GemmAlgorithm> all;
  for (int i = 0; i < tileVariantCount(); ++i) all.push_back({Kind::kTile, i});
  for (int rows : {1, 2}) all.push_back({Kind::kPersistent, rows});
  for (int i = 0; i < rowsVariantCount(); ++i) all.push_back({Kind::kRows, i});
  for (int i = 0; i < kMaxLtAlgorithms; ++i) all.push_back({Kind::kLt, i});
  for (int i = 0; i < kMaxLtAlgorithms; ++i) all.push_back({Kind::kLtBias, i});
  return all;
}

std::optional<GemmAlgorithm> algorithmNamed(std::string_view name) {
  const bool apart = name.ends_with(kApart);
  if (apart) name.remove_suffix(kApart.size());
  std::vector<GemmAlgorithm> known = allAlgorithms();
  known.push_back({Kind::kNormFirst, 0});
  for (GemmAlgorithm algorithm : known) {
    if (nameOf(algorithm) != name) continue;
    algorithm.apart = apart;
    return algorithm;
  }
  return std::nullopt;
}

bool runAlgorithm(const GemmProblem& problem, GemmAlgorithm algorithm, cudaStream_t stream) {
  if (problem.before) return runAfterNorm(problem, algorithm, stream);
  if (!problem.after) return runProduct(problem.a, algorithm, stream);
  GemmArgs product = problem.a;
  NormArgs after = *problem.after;
  after.x = product.out;
  if (algorithm.apart) {
    after.inputBias = std::exchange(product.bias, nullptr);
    after.residual = std::exchange(product.residual, nullptr), after.ldr = problem.a.ldr;
  }
  if (!runProduct(product, algorithm, stream)) return false;
  report("linear_add_layer_norm", launchNorm(after, stream));
  return true;
}

}  // namespace graft::cuda
