#pragma once
// GemmAlgorithm: one way to compute a GEMM, with a name for logs, the tuning cache and tests; and GemmProblem: what is
// to be computed.
//
//   tile-128x96-2x1-split1-stages7x1      our tile kernel (gemm_tile.cu): tile, cluster, split of K, stages x slices
//   persistent-2x1                        our persistent kernel (gemm_persistent.cu): cluster
//   rows-8x3-32-split4                    our kernel for few rows (gemm_rows.cu): warps x chunks, columns, split of K
//   cublaslt-3, cublaslt-bias-3           number 3 of cuBLASLt's heuristics, without or with its bias epilogue
//   norm-first                            a norm, then the product by its own best algorithm
//
// "-apart" at the end: the norm after the product, not the product, adds bias and residual.
#include <cuda_runtime_api.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

struct GemmAlgorithm {
  enum class Kind { kTile, kPersistent, kRows, kLt, kLtBias, kNormFirst };
  Kind kind = Kind::kLt;
  int number = 0;  ///< variant of kTile or kRows, rows of kPersistent's cluster, index in cuBLASLt's list
  bool apart = false;
};

std::string nameOf(GemmAlgorithm);
/// Nothing where no algorithm has that name.
std::optional<GemmAlgorithm> algorithmNamed(std::string_view name);
/// All algorithms of a product without a norm, in the order of the tuner's tries.
std::vector<GemmAlgorithm> allAlgorithms();

/// A product, optionally with a norm of its output's rows after it or of its x's rows before it. With `before`, a.x is
/// before->out, and kRows computes both in one kernel. With `after`, after->x is a.out.
struct GemmProblem {
  const GemmArgs& a;
  const NormArgs* after = nullptr;
  const NormArgs* before = nullptr;
};

/// Runs a problem by one algorithm. False where the algorithm does not support it.
bool runAlgorithm(const GemmProblem&, GemmAlgorithm, cudaStream_t stream);

}  // namespace graft::cuda
