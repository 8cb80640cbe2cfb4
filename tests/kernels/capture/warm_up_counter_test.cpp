// WarmUpCounter: after how many calls a shape is captured.
#include "kernels/capture/warm_up_counter.h"

#include "tests/support/catch.h"

using namespace graft;

namespace {

/// The number of calls until the shape should be captured.
int64_t callsUntilCapture(WarmUpCounter& warmUp, const WarmUpCounter::Shape& shape, bool full = false) {
  int64_t calls = 1;
  while (!warmUp.countCall(shape, full)) ++calls;
  return calls;
}

}  // namespace

TEST_CASE("a shape is captured at its second call, and later where it would evict another") {
  WarmUpCounter warmUp;
  CHECK(callsUntilCapture(warmUp, {0, {1}}) == 2);
  CHECK(callsUntilCapture(warmUp, {0, {1}}) == 2);
  CHECK(callsUntilCapture(warmUp, {0, {2}}, true) == 8);
  CHECK_FALSE(warmUp.countCall({1, {1}}, false));
}

TEST_CASE("after out of memory each further try takes twice as many calls, for that shape alone") {
  WarmUpCounter warmUp;
  for (int64_t wait = WarmUpCounter::kFirstBackOff, i = 0; i < 10; ++i, wait *= 2) {
    warmUp.backOff({0, {1}});
    CHECK(callsUntilCapture(warmUp, {0, {1}}) == wait);
  }
  CHECK(callsUntilCapture(warmUp, {0, {2}}) == 2);
  for (int i = 0; i < 100; ++i) warmUp.backOff({0, {1}});
  CHECK(callsUntilCapture(warmUp, {0, {1}}) == WarmUpCounter::kLongestBackOff);
}

TEST_CASE("an excluded shape is never captured, until the counter is reset") {
  WarmUpCounter warmUp;
  warmUp.exclude({0, {1}});
  for (int i = 0; i < 100; ++i) CHECK_FALSE(warmUp.countCall({0, {1}}, false));
  warmUp.reset();
  CHECK(callsUntilCapture(warmUp, {0, {1}}) == 2);
}
