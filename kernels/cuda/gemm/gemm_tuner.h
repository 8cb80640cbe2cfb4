#pragma once
// First stage of GEMM tuning: times all algorithms for a problem, or guesses one where there is no time for that. The
// second stage chooses among the closest ones inside a captured model (graphs/tune_in_place.h).
#include <string>
#include <vector>

#include "kernels/cuda/gemm/gemm_algorithm.h"

namespace graft::cuda {

struct TimedAlgorithm {
  GemmAlgorithm algorithm;
  double microseconds = 0;
};
/// Times the algorithms that support the problem, on a stream of its own. The fastest first, at least one. Throws
/// c10::Error. Not during a stream capture.
std::vector<TimedAlgorithm> timeAlgorithms(const GemmProblem& problem);

/// A reasonable algorithm for a product, from its shape alone. It assumes 132 SMs (H100, H200). The algorithm may not
/// support the product (an odd width, an unaligned pointer).
GemmAlgorithm guessAlgorithm(const GemmArgs& a);

}  // namespace graft::cuda
