// Paired timing: A B B A …, so that drift and the order hit both; medians, percentiles and the ratio of pairs.
//
//   auto original = frozenTorchScript("bert.pt", inputs, options);       // what people run today
//   auto fast = loadedTorchScript("fast.pt", inputs, options);           // what they will run
//   auto t = timePaired(*original, *fast, 3.0);  t->ratio                // above 1: fast is faster
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
/// Median and percentiles of at least one sample.
Timing timingOf(std::vector<double> samplesMs);

/// Pairs with nothing in the GPU's L2 cache before each run.
struct FlushedTiming {
  Timing a, b;
  double ratio = 0;
  int repetitions = 0;
};
struct PairedTiming {
  Timing a, b;
  double ratio = 0;  ///< median of a_i / b_i; above 1: b is faster
  int repetitions = 0;
  std::string protocol;                  ///< device, threads, repetitions, in words
  std::optional<FlushedTiming> flushed;  ///< the same once more, where both are captured on a GPU
};
/// One run to the end, on a GPU until it is idle again. What it wrote to buffers and inputs is put back after it, which
/// is not timed: each run begins with the same numbers, for a counter that ran on would leave its cache sooner or
/// later.
struct Runnable {
  std::function<Status()> run;
  std::function<void()> putBack = {};  ///< none: it writes nothing
  /// All of it runs on the calling thread. Its own time is measured then: what else the machine does delays a run, but
  /// hardly lengthens it.
  bool isOnOneThread = false;
  struct Past {
    int timedRuns = 0;
    double lastSeconds = 0;  ///< that the last run took, timed or not
  };
  std::shared_ptr<Past> past = std::make_shared<Past>();  ///< of all copies together
  Status operator()() const;
};
/// What timePaired takes of both at least, as far as their last runs tell.
double leastSeconds(const Runnable& a, const Runnable& b);
/// Keeps references to both: they must outlive it.
Runnable runnable(const Program&, const TensorSet& inputs);
/// The model in the file run by TorchScript itself, frozen (its weights folded in, dead branches gone). This executes
/// the file's code: for models that the user asked to run.
Result<Runnable> frozenTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions&);
/// The same as torch.jit.load gives it, in its own dtype: what the user of a written file runs.
Result<Runnable> loadedTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions&);

/// One measured run: its milliseconds, however they are taken.
using Stopwatch = std::function<Result<double>()>;
/// A program's runs: on a GPU captured and timed there by events, elsewhere wall time of whole runs. Keeps references
/// to both, which must outlive it.
struct ProgramWatch {
  Stopwatch run;
  std::string how;          ///< "captured, 113 kernels", "launched one by one (why)", "4 threads"
  double readySeconds = 0;  ///< from planning's end to the first fast run: tuning, capturing
};
Result<ProgramWatch> stopwatch(const Program&, const TensorSet& inputs, const Job& = {});
/// So many pairs tell a difference from chance. Fewer tell one that is large.
constexpr int usualPairs = 5;
/// Measures all in turn, round after round and every second round in reverse, for about `seconds` (at least `fewest`
/// rounds). The caller warms up.
Result<std::vector<Timing>> timeInTurns(const std::vector<Stopwatch>&, double seconds, const Job& = {},
                                        int fewest = usualPairs);
/// The median of a_i / b_i: above 1, b is faster.
double medianRatio(const Timing& a, const Timing& b);
/// Two of them as a pair, without a protocol.
Result<PairedTiming> timeTwoInTurns(const Stopwatch& a, const Stopwatch& b, double seconds, const Job& = {},
                                    int fewest = usualPairs);

/// Runs both alternately, after warm-up, for about `seconds` (at least `fewest` pairs). Runs that take seconds each are
/// warmed up by one pair. `where` begins the protocol: device, threads.
Result<PairedTiming> timePaired(const Runnable& a, const Runnable& b, double seconds, const Job& = {},
                                const std::string& where = "", int fewest = usualPairs);
/// On a GPU captured graphs are replayed and timed there, with a warm L2 cache for 7/10 of the time and a flushed one
/// for the rest; the protocol says when one cannot be captured. Runs both on the same inputs, alternately, after
/// warm-up, for about `seconds` (at least 5 pairs).
Result<PairedTiming> timePaired(const Program& a, const Program& b, const TensorSet& inputs, double seconds,
                                const Job& = {});
/// The file as PyTorch runs it (frozenTorchScript, on the program's device and dtype, by the clock) against the program
/// as fast as it goes: on a GPU captured and timed there. `inputs` fit the program.
Result<PairedTiming> timeAgainstFrozen(const std::string& path, const Program& b, const TensorSet& inputs,
                                       double seconds, const Job& = {});

}  // namespace graft
