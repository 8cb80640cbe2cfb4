// WarmUpCounter: how many calls with a shape of inputs a runner makes before it captures that shape.
//
//   WarmUpCounter warmUp;
//   if (warmUp.countCall(shape, /*full=*/false)) ...     // capture it now; otherwise run the model without a capture
//   warmUp.exclude(shape);                               // it cannot be captured: countCall never returns true again
//   warmUp.backOff(shape);                               // memory did not suffice: try again later
//
// A shape that was used once may never be used again, and a capture that evicts another one should be worth it. Where
// memory did not suffice, a later try may succeed; but a shape that never fits must not cost a capture on each call. So
// the number of calls until the next try doubles each time (exponential back-off). Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace graft {

class WarmUpCounter {
 public:
  /// The GPU's index and the captureKey of the inputs.
  using Shape = std::pair<int, std::vector<int64_t>>;

  static constexpr int64_t kCalls = 2, kCallsWhenFull = 8;                          ///< calls before a capture
  static constexpr int64_t kFirstBackOff = 16, kLongestBackOff = int64_t{1} << 20;  ///< calls before another try
  static constexpr size_t kMaxShapes = 4096;  ///< kept at once; beyond that all counts are reset

  /// Counts a call with a shape that is not captured. Whether it should be captured now. `full`: that would evict
  /// another capture.
  bool countCall(const Shape& shape, bool full) {
    if (counts_.size() > kMaxShapes) counts_.clear();
    Count& c = counts_[shape];
    if (c.excluded || ++c.calls < std::max(c.backOff, full ? kCallsWhenFull : kCalls)) return false;
    c.calls = 0;
    return true;
  }
  void exclude(const Shape& shape) { counts_[shape].excluded = true; }
  void backOff(const Shape& shape) {
    int64_t& calls = counts_[shape].backOff;
    calls = calls == 0 ? kFirstBackOff : std::min(2 * calls, kLongestBackOff);
  }
  void reset() { counts_.clear(); }

 private:
  struct Count {
    int64_t calls = 0, backOff = 0;
    bool excluded = false;
  };
  std::map<Shape, Count> counts_;
};

}  // namespace graft
