#include "core/base/halving.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/catch.h"

using graft::Kept;
using graft::keptInHalves;

namespace {

std::vector<size_t> firstNumbers(size_t n) {
  std::vector<size_t> out(n);
  std::iota(out.begin(), out.end(), size_t{0});
  return out;
}

}  // namespace

TEST_CASE("what the whole fails with goes, whichever it is, and the rest stays") {
  std::mt19937 random(7);
  for (size_t n = 1; n < 40; ++n)
    for (size_t wrong = 1; wrong <= std::min<size_t>(n, 3); ++wrong) {
      std::vector<size_t> bad = firstNumbers(n);
      std::shuffle(bad.begin(), bad.end(), random);
      bad.resize(wrong);
      const auto isBad = [&](size_t i) { return std::ranges::find(bad, i) != bad.end(); };
      const Kept kept = keptInHalves(firstNumbers(n), 60, [&](const std::vector<size_t>& numbers) {
        return std::ranges::none_of(numbers, isBad);
      });
      std::vector<size_t> expected = firstNumbers(n);
      std::erase_if(expected, isBad);
      std::vector<size_t> numbers = kept.numbers;
      std::ranges::sort(numbers);
      CHECK(numbers == expected);
      CHECK(kept.isComplete());
      size_t log = 1;
      while ((size_t{1} << log) < n) ++log;
      CHECK(kept.runs <= 2 * wrong * log);
    }
}

TEST_CASE("small differences add up to a limit, and the first ones stay") {
  const Kept kept = keptInHalves(firstNumbers(9), 60, [](const std::vector<size_t>& n) { return n.size() <= 5; });
  CHECK(kept.numbers.size() == 5);
}

TEST_CASE("nothing is tried after the time") {
  const Kept kept = keptInHalves(firstNumbers(9), -1, [](const std::vector<size_t>&) { return true; });
  CHECK(kept.numbers.empty());
  CHECK(kept.untried == firstNumbers(9));
  CHECK(kept.runs == 0);
  CHECK_FALSE(kept.isComplete());
}
