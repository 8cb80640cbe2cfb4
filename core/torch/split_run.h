// A graph that was split into two, run beside what it was split from: do both halves together compute the same, and how
// much memory does each take?
//
//   auto run = runSplit({joint, forward, backward, 5}, inputs, {}, job);
//   allPassed(run->differences)
#pragma once

#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft {

struct SplitGraphs {
  const Graph& whole;
  const Graph& first;
  const Graph& second;
  /// The leaves of the whole's returns that the first half returns, ahead of all others. What it returns behind them
  /// are the second half's first inputs; the halves' other inputs are the whole's, by name.
  size_t firstReturns;
};
struct SplitRun {
  std::vector<Difference> differences;   ///< of each tensor that the whole returns; `name` counts its leaves
  std::vector<size_t> notFinite;         ///< the whole's leaves that hold NaN or infinity
  size_t firstPeak = 0, secondPeak = 0;  ///< bytes that the halves hold at most, their inputs and weights not counted
};
/// The random numbers of both runs are the same. BadInput where the graphs do not take the inputs.
Result<SplitRun> runSplit(const SplitGraphs&, const TensorSet& inputs, const RunOptions&, const Job& = {});

}  // namespace graft
