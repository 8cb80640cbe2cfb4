#pragma once
// TuningBudget: how long a process may time algorithms. What does not fit is guessed, and tuned by a later process,
// because the choices that were made are on disk (gemm_cache.h). It does not depend on CUDA.
//
//   for (const std::string& each : inOrderOfValue(problems)) {
//     if (tuningBudget().isSpent()) break;
//     const TuningBudget::Use use(tuningBudget());
//     tune(each);
//   }
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace graft::cuda {

/// Thread-safe.
class TuningBudget {
 public:
  explicit TuningBudget(double seconds) : seconds_(seconds) {}

  double secondsUsed() const;
  /// So many more seconds from now on. Shares are of these.
  void allowMore(double seconds);
  /// Whether `share` of the budget has been used, uses in progress included.
  bool isSpent(double share = 1) const;

  /// Counts time that has passed outside of uses.
  void add(double seconds);

  /// Counts the time while it lives. Uses within others on the same thread, and beside others, are counted once.
  class Use {
   public:
    explicit Use(TuningBudget&);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    TuningBudget& budget_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  double seconds_, used_ = 0;
  double from_ = 0;  ///< what was used when the present budget began
  int users_ = 0;
  Clock::time_point since_;  ///< of the first of the present users
};

/// The process's budget: GRAFT_TUNING_SECONDS, or 10.
TuningBudget& tuningBudget();

/// A number from the environment; `usual` where the variable is missing, or no number from 0 on.
double secondsFromEnvironment(const char* name, double usual);

/// One problem of a run that could be tuned.
struct TuningProblem {
  std::string name;
  double microseconds = 0;  ///< of one call, estimated
  size_t calls = 0;         ///< in a run
  bool isOpen = true;       ///< not tuned yet

  double value() const { return microseconds * static_cast<double>(calls); }
};
/// Those that take most of the run first; of equal ones in the order they were met.
void sortByValue(std::vector<TuningProblem>&);
/// The names of the open problems in that order, in groups: a run of the model tunes one group. Many small groups would
/// cost many runs, one large group would tune in the order of the model.
std::vector<std::vector<std::string>> tuningRounds(std::vector<TuningProblem> problems);

}  // namespace graft::cuda
