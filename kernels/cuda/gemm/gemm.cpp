#include "kernels/cuda/gemm/gemm.h"

#include <c10/cuda/CUDAException.h>

#include "kernels/cuda/gemm/gemm_algorithm.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

using Kind = GemmAlgorithm::Kind;

void run(const GemmProblem& problem, cudaStream_t stream) {
  const GemmArgs& a = problem.a;
  if (a.k == 0) {  // the product is zero
    const size_t size = static_cast<size_t>(bytesOf(a.dtype));
    C10_CUDA_CHECK(cudaMemset2DAsync(a.out, a.ldo * size, 0, a.n * size, a.m, stream));
    report("linear", launchEpilogue(a, a.out, a.ldo, stream));
    if (problem.after) report("linear_add_layer_norm", launchNorm(*problem.after, stream));
    return;
  }
  if (runAlgorithm(problem, chosenAlgorithm(problem, true), stream)) return;
  // A guess that does not support the problem (an odd width, an unaligned pointer): cuBLASLt supports more.
  if (problem.before && runAlgorithm(problem, {Kind::kNormFirst, 0}, stream)) return;
  if (a.bias && runAlgorithm(problem, {Kind::kLtBias, 0}, stream)) return;
  TORCH_CHECK(runAlgorithm(problem, {Kind::kLt, 0}, stream),
              "graft::linear: neither Graft's kernels nor cuBLASLt support ", a.m, "x", a.n, "x", a.k,
              " with row strides ", a.ldx, ", ", a.ldw, ", ", a.ldo);
}

}  // namespace

void runGemm(const GemmArgs& a, cudaStream_t stream) { run({a}, stream); }

void runGemmNorm(const GemmArgs& a, const NormArgs& norm, cudaStream_t stream) {
  NormArgs after = norm;
  after.x = a.out, after.ldx = a.ldo;
  run({a, &after}, stream);
}

void runNormGemm(const NormArgs& norm, const GemmArgs& a, cudaStream_t stream) { run({a, nullptr, &norm}, stream); }

std::string describeGemm(const GemmArgs& a) { return nameOf(chosenAlgorithm({a}, false)); }

std::string gemmAlgorithms() {
  std::string names;
  for (GemmAlgorithm algorithm : allAlgorithms()) names += nameOf(algorithm) + "\n";
  return names;
}

bool runGemmBy(const GemmArgs& a, const std::string& name, cudaStream_t stream) {
  const auto algorithm = algorithmNamed(name);
  TORCH_CHECK(algorithm, "graft: no GEMM algorithm is called ", name);
  return runAlgorithm({a}, *algorithm, stream);
}

}  // namespace graft::cuda
