// Paired timing: A B A B …, so that drift hits both; medians, percentiles and the ratio of pairs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/torch/executor.h"

namespace graft {

struct Timing {
  double medianMs = 0, p10Ms = 0, p90Ms = 0;
  std::vector<double> samplesMs;
};
struct PairedTiming {
  Timing a, b;
  double ratio = 0;  ///< median of a_i / b_i: above 1, b is faster
  int repetitions = 0;
  std::string protocol;  ///< device, threads, repetitions, in words
};
/// Runs both on the same inputs, alternately, after warm-up, for about `seconds` (at least 5 pairs).
Result<PairedTiming> timePaired(const Program& a, const Program& b, const TensorSet& inputs, double seconds,
                                const Job& = {});

}  // namespace graft
