#include "kernels/cuda/tuning/tuning_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace graft::cuda {

double TuningBudget::secondsUsed() const {
  const std::scoped_lock lock(mutex_);
  const double now = users_ > 0 ? std::chrono::duration<double>(Clock::now() - since_).count() : 0;
  return used_ + now;
}

void TuningBudget::allowMore(double seconds) {
  const double used = secondsUsed();
  const std::scoped_lock lock(mutex_);
  from_ = used;
  seconds_ = used + seconds;
}

bool TuningBudget::isSpent(double share) const {
  const double used = secondsUsed();
  const std::scoped_lock lock(mutex_);
  return used - from_ >= share * (seconds_ - from_);
}

void TuningBudget::add(double seconds) {
  const std::scoped_lock lock(mutex_);
  used_ += seconds;
}

TuningBudget::Use::Use(TuningBudget& budget) : budget_(budget) {
  const std::scoped_lock lock(budget_.mutex_);
  if (budget_.users_++ == 0) budget_.since_ = Clock::now();
}

TuningBudget::Use::~Use() {
  const std::scoped_lock lock(budget_.mutex_);
  if (--budget_.users_ == 0) budget_.used_ += std::chrono::duration<double>(Clock::now() - budget_.since_).count();
}

double secondsFromEnvironment(const char* name, double usual) {
  const char* value = std::getenv(name);
  char* end = nullptr;
  const double given = value ? std::strtod(value, &end) : 0;
  return value && end != value && *end == '\0' && std::isfinite(given) && given >= 0 ? given : usual;
}

TuningBudget& tuningBudget() {
  static TuningBudget budget(secondsFromEnvironment("GRAFT_TUNING_SECONDS", 10));
  return budget;
}

void sortByValue(std::vector<TuningProblem>& problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const TuningProblem& a, const TuningProblem& b) { return a.value() > b.value(); });
}

std::vector<std::vector<std::string>> tuningRounds(std::vector<TuningProblem> problems) {
  constexpr size_t kRounds = 6;
  std::erase_if(problems, [](const TuningProblem& p) { return !p.isOpen; });
  sortByValue(problems);
  const size_t size = std::max<size_t>(1, (problems.size() + kRounds - 1) / kRounds);
  std::vector<std::vector<std::string>> rounds;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (i % size == 0) rounds.emplace_back();
    rounds.back().push_back(std::move(problems[i].name));
  }
  return rounds;
}

}  // namespace graft::cuda
