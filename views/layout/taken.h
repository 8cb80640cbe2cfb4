// Taken: room that labels and boxes take, so that another label finds a free place.
//
//   Taken taken;  taken.add(r);  if (taken.isFree(other)) …
#pragma once

#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "views/layout/layout.h"

namespace graft {

/// Rectangles by the squares of a grid that they touch.
class Taken {
 public:
  void add(const Rect& r) {
    forCells(r, [&](int64_t cell) {
      int& last = last_.try_emplace(cell, none).first->second;
      taken_.push_back({r, last});
      last = static_cast<int>(taken_.size()) - 1;
      return false;
    });
  }
  bool isFree(const Rect& r) const {
    return !forCells(r, [&](int64_t cell) {
      const auto found = last_.find(cell);
      for (int i = found == last_.end() ? none : found->second; i != none; i = taken_[static_cast<size_t>(i)].before) {
        const Rect& o = taken_[static_cast<size_t>(i)].rect;
        if (r.x < o.right() && o.x < r.right() && r.y < o.bottom() && o.y < r.bottom()) return true;
      }
      return false;
    });
  }

 private:
  template <typename F>
  static bool forCells(const Rect& r, F&& f) {
    const auto cellOf = [](double v) { return static_cast<int64_t>(std::floor(v / cell)); };
    for (int64_t x = cellOf(r.x); x <= cellOf(r.right()); ++x)
      for (int64_t y = cellOf(r.y); y <= cellOf(r.bottom()); ++y)
        if (f(x * 1'000'003 + y)) return true;
    return false;
  }

  struct Entry {
    Rect rect;
    int before = none;  ///< the one that was added to the cell before it
  };
  static constexpr int none = -1;
  static constexpr double cell = 160;
  std::vector<Entry> taken_;
  std::unordered_map<int64_t, int> last_;  ///< by cell, into `taken_`
};

}  // namespace graft
