// Patient threads: while one exists, OpenMP's threads wait for each other asleep instead of spinning.
//
//   const PatientThreads patient;            // verification: many small runs, and nobody times them
//   verify(...);
//
// libgomp, which LibTorch brings along, lets threads spin for milliseconds before they sleep. That starts the next loop
// sooner on cores of one's own. On cores that others use too, a spinning thread takes the time that the one it waits
// for needs: verification took five times as long. libgomp hardly spins while there are more OpenMP threads than cores
// (its manual, GOMP_SPINCOUNT), so this object keeps a few more, all asleep. The environment's OMP_WAIT_POLICY would do
// the same for the whole process, and so for what is timed: timings have to run as users run a model.
//
// Where another OpenMP is loaded, or PyTorch uses one thread, it does nothing.
#pragma once

#include <future>
#include <thread>

namespace graft {

class PatientThreads {
 public:
  PatientThreads();
  ~PatientThreads();
  PatientThreads(const PatientThreads&) = delete;
  PatientThreads& operator=(const PatientThreads&) = delete;
  bool isActive() const { return helper_.joinable(); }

 private:
  std::promise<void> end_;
  std::thread helper_;
};

}  // namespace graft
