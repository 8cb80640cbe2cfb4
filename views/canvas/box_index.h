// BoxIndex: which boxes of a layout touch a rectangle, without looking at all of them. Made once for a scene.
//
//   BoxIndex index(layout.boxes, {layout.width, layout.height});
//   index.any(layout.boxes, rect, [&](int box) { return !view.boxes[box].open; })   // whether a closed one is there
#pragma once

#include <QRectF>
#include <algorithm>
#include <vector>

#include "views/layout/layout.h"

namespace graft {

class BoxIndex {
 public:
  BoxIndex() = default;
  BoxIndex(const std::vector<Rect>& boxes, QSizeF size);

  /// Calls `is` with boxes that touch the rectangle, some of them more than once, until it returns true. `boxes` are
  /// those that it was made of.
  template <typename F>
  bool any(const std::vector<Rect>& boxes, const QRectF& r, F&& is) const {
    if (cells_.empty()) return false;
    const int left = column(r.left()), right = column(r.right()), bottom = row(r.bottom());
    for (int y = row(r.top()); y <= bottom; ++y)
      for (int x = left; x <= right; ++x)
        for (int k = first_[cellAt(x, y)]; k < first_[cellAt(x, y) + 1]; ++k) {
          const int box = cells_[static_cast<size_t>(k)];
          const Rect& b = boxes[static_cast<size_t>(box)];
          if (b.x < r.right() && r.left() < b.right() && b.y < r.bottom() && r.top() < b.bottom() && is(box))
            return true;
        }
    return false;
  }

 private:
  int column(double x) const { return std::clamp(static_cast<int>(x / cell_.width()), 0, columns_ - 1); }
  int row(double y) const { return std::clamp(static_cast<int>(y / cell_.height()), 0, rows_ - 1); }
  size_t cellAt(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(columns_) + static_cast<size_t>(x);
  }

  QSizeF cell_{1, 1};
  int columns_ = 0, rows_ = 0;
  std::vector<int> first_, cells_;  ///< by cell, row by row: where its boxes begin; boxes
};

}  // namespace graft
