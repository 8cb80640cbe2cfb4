#include "core/torch/run/patient_threads.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>

#include <ctime>
#include <memory>

#include "tests/support/catch.h"

namespace {

double processMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// Processor time, all threads together, that passes while nothing is to be done behind a loop of several threads.
double spentIdle(int rounds) {
  const at::Tensor x = at::ones({1 << 20});
  double spent = 0;
  for (int i = 0; i < rounds; ++i) {
    at::add(x, x);
    const double before = processMilliseconds();
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
    spent += processMilliseconds() - before;
  }
  return spent / rounds;
}

}  // namespace

TEST_CASE("threads of one's own do not spin while patient threads exist") {
  at::set_num_threads(2);
  spentIdle(2);
  auto patient = std::make_unique<graft::PatientThreads>();
  if (!patient->isActive()) SUCCEED("another OpenMP, or no second thread");
  if (!patient->isActive()) return;
  spentIdle(1);
  const double asleep = spentIdle(10);
  patient.reset();
  spentIdle(1);
  const double usual = spentIdle(10);
  CAPTURE(asleep, usual);
  CHECK(asleep < 0.5);
  // By OMP_WAIT_POLICY the usual way may be this one.
  if (!std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT")) CHECK(asleep <= usual);
}

TEST_CASE("patient threads may be many, and do nothing for one thread") {
  at::set_num_threads(2);
  {
    const graft::PatientThreads one, two;
    CHECK(one.isActive() == two.isActive());
    CHECK(at::add(at::ones({1 << 20}), at::ones({1 << 20})).sum().item<double>() == 2 << 20);
  }
  at::set_num_threads(1);
  CHECK_FALSE(graft::PatientThreads().isActive());
}
