// Processor time of the thread that asks: neither other jobs on the machine nor this process's other threads are in it.
#pragma once

#include <ctime>

namespace graft::test {

inline double threadMs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1000.0 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e6;
}

}  // namespace graft::test
