// How often a shape of inputs must come before it is captured.
//
//   Sightings seen;
//   if (seen.come(shape, /*full=*/false)) ...        // capture it now; else run the model as it is
//   seen.refuse(shape);                              // it cannot be captured: never again
//   seen.ranOut(shape);                              // memory did not suffice for it: later, and later each time
//
// A shape that has come once may never come again, and a capture that another must go for should be worth it. Memory
// that did not suffice may do another time, but a shape that never fits must not cost each call a capture: so the
// number of calls until the next try doubles. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace graft {

class Sightings {
 public:
  /// The GPU's number and captureKey of the inputs.
  using Shape = std::pair<int, std::vector<int64_t>>;

  static constexpr int64_t kUsual = 2, kWhenFull = 8;                    ///< how often it must have come
  static constexpr int64_t kAfterRanOut = 16, kMost = int64_t{1} << 20;  ///< and where memory ran out, once or often
  static constexpr size_t kShapes = 4096;                                ///< known at once; then all are forgotten

  /// The shape has come, and is not captured. Whether it shall be. `full`: another would go for it.
  bool come(const Shape& shape, bool full) {
    if (seen_.size() > kShapes) seen_.clear();
    Seen& s = seen_[shape];
    if (s.refused || ++s.times < std::max(s.wait, full ? kWhenFull : kUsual)) return false;
    s.times = 0;
    return true;
  }
  void refuse(const Shape& shape) { seen_[shape].refused = true; }
  void ranOut(const Shape& shape) {
    int64_t& wait = seen_[shape].wait;
    wait = wait == 0 ? kAfterRanOut : std::min(2 * wait, kMost);
  }
  void forget() { seen_.clear(); }

 private:
  struct Seen {
    int64_t times = 0, wait = 0;
    bool refused = false;
  };
  std::map<Shape, Seen> seen_;
};

}  // namespace graft
