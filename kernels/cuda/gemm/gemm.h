#pragma once
// One GEMM, the best of several ways: our tile kernels, our persistent kernel, our kernel for few rows, cuBLASLt with
// or without its bias epilogue.
//
// The first call for a problem outside of a stream capture times all ways that apply and keeps the winner (which the
// first capture of a model may change), in memory and on disk (one file per GPU and library version under
// $GRAFT_CACHE_DIR, else $XDG_CACHE_HOME/graft, else
// ~/.cache/graft). Under capture, or with tuning switched off, an untuned problem takes a reasonable guess, which is
// not remembered.
//
//   GemmArgs a; ...; runGemm(a, c10::cuda::getCurrentCUDAStream());
#include <c10/cuda/CUDAStream.h>

#include <string>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

void runGemm(const GemmArgs& a, c10::cuda::CUDAStream stream);

// The product, then the norm of its rows (norm.n = a.n; its x is a.out, no residual of its own). Whether the product
// adds bias and residual or the norm does is part of the choice: a.out, rounded, holds the one or the other.
void runGemmNorm(const GemmArgs& a, const NormArgs& norm, c10::cuda::CUDAStream stream);

// The norm of rows, then a product of them (a.x = norm.out). For a few rows in one kernel, if that is faster.
void runNormGemm(const NormArgs& norm, const GemmArgs& a, c10::cuda::CUDAStream stream);

// Once more inside a captured model (graphs.cpp), whose neighbours decide what is fastest there. As long as a
// NotedProblems lives, the thread's problems are noted, each once. rivalsOf: the ways that came close, the present one
// first; none once the choice has been made for good.
class NotedProblems {
 public:
  explicit NotedProblems(std::vector<std::string>* problems);
  ~NotedProblems();
  NotedProblems(const NotedProblems&) = delete;
  NotedProblems& operator=(const NotedProblems&) = delete;

 private:
  std::vector<std::string>* before_;
};
std::vector<std::string> rivalsOf(const std::string& problem);
void chooseWay(const std::string& problem, const std::string& way, bool forGood);

// How a problem would be computed now, for reports and tests: "tile 64x64 split 4", "persistent x2", "cublaslt #3
// bias".
std::string describeGemm(const GemmArgs& a);

// All ways by name, and one of them run by that name; false if it does not apply. For tests and measurements.
std::string gemmWays();
bool runGemmWay(const GemmArgs& a, const std::string& way, c10::cuda::CUDAStream stream);

}  // namespace graft::cuda
