#include "views/layout/edge_labels.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace graft {
namespace {

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

}  // namespace

Rect labelRect(const VisibleGraph& graph, const EdgeLabel& label) {
  constexpr double above = 8, below = 2;
  const double width = textWidth(graph.edges[static_cast<size_t>(label.edge)].label, Metrics::labelSize);
  return {label.at.x, label.at.y - above, width, above + below};
}

void clearLabels(const VisibleGraph& graph, Layout& layout) {
  constexpr double beside = 5, above = 4;
  Taken taken;
  for (size_t i = 0; i < graph.boxes.size(); ++i)
    if (!graph.boxes[i].open) taken.add(layout.boxes[i]);
  std::vector<EdgeLabel> kept;
  for (EdgeLabel label : layout.labels) {
    Rect r = labelRect(graph, label);
    if (!taken.isFree(r)) {
      const Point way = layout.edges[static_cast<size_t>(label.edge)].points.front();
      if (layout.flow == Flow::Down)
        label.at.x = label.at.x < way.x ? way.x + beside : way.x - beside - r.width;
      else
        label.at.y = layout.boxes[static_cast<size_t>(graph.edges[static_cast<size_t>(label.edge)].from)].y - above;
      r = labelRect(graph, label);
      if (!taken.isFree(r)) continue;
    }
    taken.add(r);
    kept.push_back(label);
  }
  layout.labels = std::move(kept);
}

}  // namespace graft
