#include "views/layout/edge_labels.h"

#include <utility>

#include "views/layout/taken.h"

namespace graft {

Rect labelRect(const EdgeLabel& label) {
  constexpr double above = 8, below = 2;
  const double width = textWidth(label.text, Metrics::labelSize);
  return {label.at.x, label.at.y - above, width, above + below};
}

void clearLabels(const VisibleGraph& graph, Layout& layout) {
  constexpr double beside = 5, above = 4;
  Taken taken;
  for (size_t i = 0; i < graph.boxes.size(); ++i)
    if (!graph.boxes[i].open) taken.add(layout.boxes[i]);
  std::vector<EdgeLabel> kept;
  for (EdgeLabel label : layout.labels) {
    Rect r = labelRect(label);
    if (!taken.isFree(r)) {
      const Point way = layout.edges[static_cast<size_t>(label.edge)].points.front();
      if (layout.flow == Flow::Down)
        label.at.x = label.at.x < way.x ? way.x + beside : way.x - beside - r.width;
      else
        label.at.y = layout.boxes[static_cast<size_t>(graph.edges[static_cast<size_t>(label.edge)].from)].y - above;
      r = labelRect(label);
      if (!taken.isFree(r)) continue;
    }
    taken.add(r);
    kept.push_back(label);
  }
  layout.labels = std::move(kept);
}

}  // namespace graft
