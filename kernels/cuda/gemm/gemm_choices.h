#pragma once
// Which algorithm each GEMM problem uses: choices in memory and in the tuning cache on disk (tuning/gemm_cache.h).
//
//   runAlgorithm(problem, chosenAlgorithm(problem, /*mayTune=*/true), stream);
//
// A choice is made twice: when a problem is run outside of a capture, from timings of the problem alone; and once more
// inside a captured model (graphs/tune_in_place.h), among the candidates whose timings were close. Both end with the
// process's budget (tuning/tuning_budget.h). A problem is named by the GPU's index and the key of its shapes, strides
// and options.
#include <string>
#include <vector>

#include "kernels/cuda/gemm/gemm_algorithm.h"
#include "kernels/cuda/tuning/tuning_budget.h"

namespace graft::cuda {

/// The algorithm for a problem: chosen before, found on disk, or else tuned now. Where tuning is not possible (a
/// capture is in progress, tuning is off, the budget is spent, the problem is none of TunedProblems, `mayTune` is
/// false) it is a guess, which is not remembered.
GemmAlgorithm chosenAlgorithm(const GemmProblem& problem, bool mayTune);

/// While it lives, the problems that the calling thread runs are added to `problems`, each once, with the number of
/// calls; null: nothing is recorded.
class RecordedProblems {
 public:
  explicit RecordedProblems(std::vector<TuningProblem>* problems);
  ~RecordedProblems();
  RecordedProblems(const RecordedProblems&) = delete;
  RecordedProblems& operator=(const RecordedProblems&) = delete;

 private:
  std::vector<TuningProblem>* before_;
};

/// While it lives, the calling thread tunes these problems alone.
class TunedProblems {
 public:
  explicit TunedProblems(const std::vector<std::string>& names);
  ~TunedProblems();
  TunedProblems(const TunedProblems&) = delete;
  TunedProblems& operator=(const TunedProblems&) = delete;
  /// Without an end. Null: all. Returns what it was.
  static const std::vector<std::string>* set(const std::vector<std::string>* names);

 private:
  const std::vector<std::string>* before_;
};

/// How many problems the process has guessed because the budget was spent, and not tuned since.
size_t guessedProblems();

/// The names of the algorithms to try in place: the present choice, then the others whose timings were close. Empty
/// once the choice is final.
std::vector<std::string> gemmCandidates(const std::string& problem);
/// Makes an algorithm the problem's choice. `isFinal`: for good, also on disk.
void chooseGemmAlgorithm(const std::string& problem, const std::string& algorithm, bool isFinal);

}  // namespace graft::cuda
