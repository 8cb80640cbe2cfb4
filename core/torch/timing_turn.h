// TimingTurn: processes of one user that time on the same GPU take turns, so that each measures its own kernels alone.
//
//   const TimingTurn turn(device, job);      // waits while another process has it
//   ... time ...
//
// A lock on a file in the folder for temporary files, which ends with its process. Turns nest. A CPU has none: there
// each process times by the clock of its own threads. Where no lock can be had, timing goes on without.
#pragma once

#include <chrono>
#include <string_view>

#include "core/base/progress.h"

namespace graft {

class TimingTurn {
 public:
  /// Waits until it is this process's turn, the job is cancelled, or `mostSeconds` are over.
  TimingTurn(std::string_view device, const Job&, double mostSeconds = 60);
  TimingTurn(const TimingTurn&) = delete;
  TimingTurn& operator=(const TimingTurn&) = delete;
  ~TimingTurn();

 private:
  bool has_ = false;
};

/// How long all turns of this process have waited so far, in seconds.
double secondsOfWaiting();

/// Measures time without the waiting for turns, which is no part of a budget.
class OwnTime {
 public:
  double seconds() const;  ///< since it was made

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double waitedBefore_ = secondsOfWaiting();
};

}  // namespace graft
