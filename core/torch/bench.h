// Paired timing: A B A B …, so that drift hits both; medians, percentiles and the ratio of pairs.
//
//   auto original = frozenTorchScript("bert.pt", inputs, options);       // what people run today
//   auto fast = runnable(*program, inputs);
//   auto t = timePaired(*original, fast, 3.0);  t->ratio                 // above 1: fast is faster
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
/// One run to the end, on a GPU until it is idle again.
using Runnable = std::function<Status()>;
/// Keeps references to both: they must outlive it.
Runnable runnable(const Program&, const TensorSet& inputs);
/// The model in the file run by TorchScript itself, frozen (its weights folded in, dead branches gone). This executes
/// the file's code: for models that the user asked to run.
Result<Runnable> frozenTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions&);

/// Runs both alternately, after warm-up, for about `seconds` (at least 5 pairs). `where` begins the protocol: device,
/// threads.
Result<PairedTiming> timePaired(const Runnable& a, const Runnable& b, double seconds, const Job& = {},
                                const std::string& where = "");
/// On a GPU captured graphs are replayed and timed there; the protocol says when one cannot be captured.
/// Runs both on the same inputs, alternately, after warm-up, for about `seconds` (at least 5 pairs).
Result<PairedTiming> timePaired(const Program& a, const Program& b, const TensorSet& inputs, double seconds,
                                const Job& = {});

}  // namespace graft
