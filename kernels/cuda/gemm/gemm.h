#pragma once
// runGemm: one GEMM by the fastest algorithm known for it: our tile kernels, our persistent kernel, our kernel for few
// rows, or cuBLASLt with or without its bias epilogue.
//
//   GemmArgs a; a.x = ...; a.m = ...;                      // launchers.h has the formula, shapes and strides
//   runGemm(a, c10::cuda::getCurrentCUDAStream());
//
// The first call for a problem outside of a stream capture times all algorithms that support it. The fastest is kept in
// memory and on disk (tuning/gemm_cache.h); the first capture of a model may change the choice (gemm_choices.h). Under
// capture, or with tuning switched off, an untuned problem gets a guess, which is not remembered.
#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

void runGemm(const GemmArgs& a, cudaStream_t stream);

// The product, then the norm of its rows: norm.n = a.n, norm.x is set to a.out, norm has no residual of its own. The
// choice of algorithm includes whether the product or the norm adds bias and residual; a.out holds the rounded sum with
// or without them.
void runGemmNorm(const GemmArgs& a, const NormArgs& norm, cudaStream_t stream);

// The norm of rows, then a product of them (a.x = norm.out). For a few rows in one kernel, if that is faster.
void runNormGemm(const NormArgs& norm, const GemmArgs& a, cudaStream_t stream);

// For reports, measurements and tests: the name of the algorithm that runGemm would use now (gemm_algorithm.h), without
// tuning; all names, a line each; and a product by one of them, false if the algorithm does not support it.
std::string describeGemm(const GemmArgs& a);
std::string gemmAlgorithms();
bool runGemmBy(const GemmArgs& a, const std::string& algorithm, cudaStream_t stream);

}  // namespace graft::cuda
