// Taken: room that labels and boxes take, so that another label finds a free place.
//
//   Taken taken;  taken.add(r);  if (taken.isFree(other)) …
#pragma once

#include <algorithm>
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
    forCells(r, [&](std::vector<Rect>& here) {
      here.push_back(r);
      return false;
    });
  }
  bool isFree(const Rect& r) {
    return !forCells(r, [&](const std::vector<Rect>& here) {
      return std::any_of(here.begin(), here.end(), [&](const Rect& o) {
        return r.x < o.right() && o.x < r.right() && r.y < o.bottom() && o.y < r.bottom();
      });
    });
  }

 private:
  template <typename F>
  bool forCells(const Rect& r, F&& f) {
    const auto cellOf = [](double v) { return static_cast<int64_t>(std::floor(v / cell)); };
    for (int64_t x = cellOf(r.x); x <= cellOf(r.right()); ++x)
      for (int64_t y = cellOf(r.y); y <= cellOf(r.bottom()); ++y)
        if (f(cells_[x * 1'000'003 + y])) return true;
    return false;
  }

  static constexpr double cell = 160;
  std::unordered_map<int64_t, std::vector<Rect>> cells_;
};

}  // namespace graft
