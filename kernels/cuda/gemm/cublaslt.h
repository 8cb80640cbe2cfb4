#pragma once
// cuBLASLt behind GemmArgs: its heuristics' results as numbered candidates, and a call of one of them.
#include <cublasLt.h>

#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace = 0;
};

// Its algorithms for x w^T (+ bias), best first by its own estimate; empty where it cannot.
std::vector<LtAlgorithm> ltAlgorithms(const GemmArgs& a, bool bias, int most);

// out = x w^T (+ bias); the caller adds what else there is. The workspace must have algorithm.workspace bytes.
cublasStatus_t ltRun(const GemmArgs& a, bool bias, const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream);

}  // namespace graft::cuda
