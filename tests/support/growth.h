// How much longer work takes when it has more to do: a law that holds on a slow machine and in a sanitized build, where
// a time in seconds does not.
#pragma once

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

namespace graft::test {

/// The least processor time of `times` calls of `work`, in seconds. Other jobs on the machine do not count.
template <class Work>
double processorSeconds(Work&& work, int times = 3) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const std::clock_t begin = std::clock();
    work();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

/// True where five times as much takes less than ten times as long; in quadratic time it would take 25 times as long.
inline bool growsInStep(double less, double more) {
  std::printf("%.1f ms, with five times as much %.1f ms\n", 1e3 * less, 1e3 * more);
  return more < 10 * less;
}

}  // namespace graft::test
