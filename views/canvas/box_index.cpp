#include "views/canvas/box_index.h"

#include <cmath>

namespace graft {

BoxIndex::BoxIndex(const std::vector<Rect>& boxes, QSizeF size) {
  if (boxes.empty() || size.isEmpty()) return;
  constexpr double perCell = 2;
  const double side = std::sqrt(perCell * size.width() * size.height() / static_cast<double>(boxes.size()));
  columns_ = std::max(1, static_cast<int>(size.width() / side));
  rows_ = std::max(1, static_cast<int>(size.height() / side));
  cell_ = {size.width() / columns_, size.height() / rows_};
  first_.assign(cellAt(0, rows_) + 1, 0);
  const auto forCells = [&](const Rect& r, auto&& f) {
    const int right = column(r.right()), bottom = row(r.bottom());
    for (int y = row(r.y); y <= bottom; ++y)
      for (int x = column(r.x); x <= right; ++x) f(cellAt(x, y));
  };
  for (const Rect& r : boxes) forCells(r, [&](size_t cell) { ++first_[cell + 1]; });
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  cells_.resize(static_cast<size_t>(first_.back()));
  std::vector<int> next = first_;
  for (size_t i = 0; i < boxes.size(); ++i)
    forCells(boxes[i], [&](size_t cell) { cells_[static_cast<size_t>(next[cell]++)] = static_cast<int>(i); });
}

}  // namespace graft
