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

// What cuBLASLt's kernel does behind x w^T, or behind x w^T + bias with `bias`: it adds the residual where no
// activation comes before it. The caller does the rest.
inline bool ltAddsResidual(const GemmArgs& a, bool bias) {
  return a.residual && a.activation == Activation::kNone && (bias || !a.bias);
}

// At most `most` algorithms for the product and what comes with it, the best by cuBLASLt's own estimate first. Empty
// where it supports none.
std::vector<LtAlgorithm> ltAlgorithms(const GemmArgs& a, bool bias, int most);

// out = x w^T, or x w^T + bias with `bias`, and what comes with it. The workspace must have algorithm.workspace bytes.
cublasStatus_t ltRun(const GemmArgs& a, bool bias, const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream);

}  // namespace graft::cuda
