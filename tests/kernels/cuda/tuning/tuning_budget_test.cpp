// How long a process may time algorithms, and in which order.
#include "kernels/cuda/tuning/tuning_budget.h"

#include <cstdlib>
#include <thread>

#include "tests/support/catch.h"

using namespace graft::cuda;

namespace {

void passMilliseconds(int n) { std::this_thread::sleep_for(std::chrono::milliseconds(n)); }

std::vector<std::string> flat(const std::vector<std::vector<std::string>>& rounds) {
  std::vector<std::string> out;
  for (const auto& round : rounds) out.insert(out.end(), round.begin(), round.end());
  return out;
}

}  // namespace

TEST_CASE("uses count while they live, and those within others are counted once") {
  TuningBudget budget(0.02);
  CHECK_FALSE(budget.isSpent());
  passMilliseconds(30);  // used by nobody
  CHECK(budget.secondsUsed() == 0);
  {
    const TuningBudget::Use outer(budget);
    const TuningBudget::Use inner(budget);
    CHECK_FALSE(budget.isSpent());
    passMilliseconds(30);
    CHECK(budget.isSpent());  // a use in progress counts
  }
  const double used = budget.secondsUsed();
  CHECK(used >= 0.03);
  CHECK(used < 0.06 + 5);  // not twice, except on a machine that stood still
  passMilliseconds(5);
  CHECK(budget.secondsUsed() == used);
}

TEST_CASE("a budget can be spent in part, ended and raised") {
  TuningBudget budget(10);
  budget.add(6);
  CHECK(budget.isSpent(0.5));
  CHECK_FALSE(budget.isSpent());
  budget.allowMore(0);
  CHECK(budget.isSpent());
  budget.allowMore(14);
  CHECK_FALSE(budget.isSpent(0.5));
  CHECK(TuningBudget(0).isSpent());  // nothing may be timed at all
}

TEST_CASE("more seconds are for what comes next, whatever was used before") {
  TuningBudget budget(3);
  budget.add(3);
  budget.allowMore(4);
  CHECK_FALSE(budget.isSpent(0.25));
  budget.add(1);
  CHECK(budget.isSpent(0.25));
  CHECK_FALSE(budget.isSpent(0.5));
  budget.add(3);
  CHECK(budget.isSpent());
}

TEST_CASE("seconds come from the environment where it holds a number from 0 on") {
  const auto read = [](const char* value) {
    ::setenv("GRAFT_TEST_SECONDS", value, 1);
    return secondsFromEnvironment("GRAFT_TEST_SECONDS", 7);
  };
  CHECK(read("2.5") == 2.5);
  CHECK(read("0") == 0);
  for (const char* wrong : {"", "-1", "ten", "3s", "nan", "inf"}) {
    INFO(wrong);
    CHECK(read(wrong) == 7);
  }
  ::unsetenv("GRAFT_TEST_SECONDS");
  CHECK(secondsFromEnvironment("GRAFT_TEST_SECONDS", 7) == 7);
}

TEST_CASE("what takes most of a run is tuned first, by all its calls; what is tuned already is left out") {
  const std::vector<std::vector<std::string>> rounds = tuningRounds({{"once, long", 50, 1},
                                                                     {"often, short", 6, 12},
                                                                     {"tuned", 1000, 10, false},
                                                                     {"rare, short", 6, 1},
                                                                     {"as rare", 6, 1}});
  CHECK(flat(rounds) == std::vector<std::string>{"often, short", "once, long", "rare, short", "as rare"});
  CHECK(rounds.size() == 4);
}

TEST_CASE("many problems come in few rounds, none is lost") {
  std::vector<TuningProblem> problems;
  for (int i = 0; i < 250; ++i) problems.push_back({std::to_string(i), static_cast<double>(i % 17), 1});
  const auto rounds = tuningRounds(problems);
  CHECK(rounds.size() <= 6);
  CHECK(flat(rounds).size() == 250);
  CHECK(rounds.front().front() == "16");
  CHECK(tuningRounds({}).empty());
}
