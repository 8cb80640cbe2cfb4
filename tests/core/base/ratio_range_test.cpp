#include "core/base/numbers/ratio_range.h"

#include <vector>

#include "tests/support/catch.h"

using namespace graft;

namespace {

std::string says(const std::vector<double>& a, const std::vector<double>& b, double ratio) {
  return speedText(ratio, ratioRange(a, b));
}

}  // namespace

TEST_CASE("Two sides are different where the range of their ratio leaves 1 out") {
  CHECK(ratioRange({2, 2, 3}, {1, 1, 1, 9}).tellsDifference());
  CHECK(ratioRange({1, 1, 1}, {2, 2, 3}).tellsDifference());
  CHECK_FALSE(ratioRange({1, 2}, {1, 1}).tellsDifference());
  CHECK_FALSE(ratioRange({}, {}).tellsDifference());
}

TEST_CASE("One of two programs is faster where all that was measured says so") {
  CHECK(says({2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, {1, 1, 1, 1, 1, 1}, 2.0) == "2.00 times faster");
  CHECK(says({1, 1, 1, 1, 1, 1}, {2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, 0.5) == "2.00 times slower");
  CHECK(says({20.1, 20.2, 20.1}, {1, 1, 1}, 20.1) == "20.1 times faster");
}

TEST_CASE("Two equal programs have the same speed") {
  CHECK(says({1.00, 1.01, 1.00, 1.02, 1.00, 1.01}, {1.01, 1.00, 1.00, 1.01, 1.01, 1.00}, 1.0) ==
        "the same speed (0.99 to 1.01 times as fast)");
  // All pairs agree, and two decimals show nothing of it.
  CHECK(speedOf(1.004, {1.002, 1.006}) == Speed::Same);
  CHECK(speedOf(0.997, {0.996, 0.998}) == Speed::Same);
}

TEST_CASE("A wide range that holds 1 tells nothing") {
  CHECK(speedOf(1.3, {0.8, 2.0}) == Speed::Untold);
  CHECK(speedText(3.0, {0.2, 3.08}) == "no difference that these runs can tell (0.20 to 3.08 times as fast)");
}

TEST_CASE("Where medians and pairs tell different things, nothing is claimed") {
  // Most pairs have the second ahead by little, some have it far behind: its median is the slower one.
  const std::vector<double> a{7.0, 7.1, 9.0, 9.1, 7.0, 6.9, 7.0}, b{6.9, 7.0, 8.9, 9.0, 9.4, 9.5, 6.9};
  const RatioRange range = ratioRange(a, b);
  CHECK_FALSE(range.tellsDifference());
  CHECK(range.low < 1);
}

TEST_CASE("Pairs beside each other count as one sample of a machine that was as busy in both") {
  // Two slow phases of one side in 240 pairs: as single pairs they would be 80 samples.
  std::vector<double> a, b;
  for (int i = 0; i < 240; ++i) {
    a.push_back(1 + 0.01 * ((i * 7) % 5));
    b.push_back(i / 40 % 3 == 0 ? 1.3 : 1 + 0.01 * ((i * 3) % 5));
  }
  CHECK_FALSE(ratioRange(a, b).tellsDifference());
}

TEST_CASE("Every verdict has its word") {
  CHECK(speedName(Speed::Faster) == "faster");
  CHECK(speedName(Speed::Slower) == "slower");
  CHECK(speedName(Speed::Same) == "same");
  CHECK(speedName(Speed::Untold) == "untold");
}
