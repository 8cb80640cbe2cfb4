// RectRuns: which of many rectangles may touch an area, in their order, without looking at all of them. What follows
// each other in a drawing mostly lies side by side, so runs of neighbours are looked at as one. Made once for a scene.
//
//   RectRuns runs;  for (…) runs.add(edge, bounds);
//   runs.near(area, [&](int edge) { … });   // all that touch the area, and some others near it
#pragma once

#include <QRectF>
#include <algorithm>
#include <vector>

namespace graft {

class RectRuns {
 public:
  void add(int what, const QRectF& r) {
    if (items_.size() % length == 0) runs_.push_back({r.left(), r.top(), r.right(), r.bottom()});
    Bounds& run = runs_.back();
    run = {std::min(run.left, r.left()), std::min(run.top, r.top()), std::max(run.right, r.right()),
           std::max(run.bottom, r.bottom())};
    items_.push_back(what);
  }

  size_t size() const { return items_.size(); }

  template <typename F>
  void near(const QRectF& area, F&& f) const {
    for (size_t k = 0; k < runs_.size(); ++k) {
      const Bounds& run = runs_[k];
      if (run.left > area.right() || run.right < area.left() || run.top > area.bottom() || run.bottom < area.top())
        continue;
      const size_t end = std::min(items_.size(), (k + 1) * length);
      for (size_t i = k * length; i < end; ++i) f(items_[i]);
    }
  }

 private:
  static constexpr size_t length = 24;
  struct Bounds {
    double left, top, right, bottom;
  };
  std::vector<Bounds> runs_;
  std::vector<int> items_;
};

}  // namespace graft
