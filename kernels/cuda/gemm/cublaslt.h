#pragma once
// cuBLASLt behind GemmArgs: the algorithms that its heuristics propose for a product, and a call of one of them.
//
//   const auto list = ltAlgorithms(a, /*bias=*/false, 24);
//   ltRun(a, false, list[0], workspace, stream);
#include <cublasLt.h>

#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace = 0;  // bytes
};

// At most `most` algorithms for x w^T, or for x w^T + bias, the best by cuBLASLt's own estimate first. Empty where it
// supports none.
std::vector<LtAlgorithm> ltAlgorithms(const GemmArgs& a, bool bias, int most);

// out = x w^T, or x w^T + bias with `bias`. The caller applies the rest of the epilogue. The workspace must have
// algorithm.workspace bytes.
cublasStatus_t ltRun(const GemmArgs& a, bool bias, const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream);

}  // namespace graft::cuda
