#include "views/layout/layout.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace graft {

Rect boxSize(const Box& box, Flow flow, double letters) {
  using M = Metrics;
  constexpr double mostDetail = 130;  // to the right
  const bool isDown = flow == Flow::Down;
  double first = textWidth(box.title, M::titleSize) * 1.04;
  if (isDown && !box.name.empty() && box.name != box.title) first += 8 + textWidth(box.name, M::nameSize) * 1.04;
  if (box.repeat > 1) first += 34;
  if (box.kind == BoxKind::Module) first += 16;  // the sign that it can be opened
  double second = box.detail.empty() ? 0 : textWidth(box.detail, M::detailSize) * 1.04;
  for (const std::string& chip : box.chips)
    second += (second > 0 ? M::chipGap : 0) + textWidth(chip, M::chipSize) * 1.04 + 2 * M::chipPadding;
  if (!isDown) second = std::min(second, mostDetail);
  if (box.kind == BoxKind::Input || box.kind == BoxKind::Output) second += 8;  // their ends are round
  Rect r;
  r.width = std::clamp(letters * (std::max(first, second + 2) + 2 * M::padding), 64.0, letters * M::maxWidth);
  r.height = box.detail.empty() && box.chips.empty() ? 28 : 46;
  return r;
}

std::optional<double> LayoutOrder::placeOf(uint64_t name) const {
  const auto it = std::lower_bound(places.begin(), places.end(), name,
                                   [](const auto& place, uint64_t wanted) { return place.first < wanted; });
  return it != places.end() && it->first == name ? std::optional(it->second) : std::nullopt;
}

LayoutOrder LayoutOrder::over(const LayoutOrder& other) const {
  LayoutOrder both;
  both.places.reserve(std::max(places.size(), other.places.size()));
  std::set_union(places.begin(), places.end(), other.places.begin(), other.places.end(),
                 std::back_inserter(both.places), [](const auto& a, const auto& b) { return a.first < b.first; });
  return both;
}

std::array<Point, 3> arrowHead(const EdgePath& edge) {
  constexpr double length = 6, half = 3.2;
  const Point tip = edge.points.back(), before = edge.points[edge.points.size() - 2];
  const double dx = tip.x - before.x, dy = tip.y - before.y;
  if (std::abs(dx) > std::abs(dy)) {
    const double back = dx < 0 ? length : -length;
    return {tip, {tip.x + back, tip.y - half}, {tip.x + back, tip.y + half}};
  }
  const double back = dy < 0 ? length : -length;
  return {tip, {tip.x - half, tip.y + back}, {tip.x + half, tip.y + back}};
}

EdgePath smoothPath(const std::vector<Point>& stops) {
  EdgePath path;
  if (stops.empty()) return path;
  path.points.push_back(stops.front());
  double heading = 1;  // down; up: -1
  for (size_t i = 1; i < stops.size(); ++i) {
    Point a = path.points.back(), b = stops[i];
    if (std::abs(a.x - b.x) < 0.05 && std::abs(a.y - b.y) < 0.05) continue;
    double pull = (b.y - a.y) / 2;
    if (std::abs(b.y - a.y) < 0.05) {  // it turns back
      const double swing = heading * (14 + 0.04 * std::min(600.0, std::abs(b.x - a.x)));
      path.points.push_back({a.x, a.y + swing});
      path.points.push_back({b.x, b.y + swing});
      path.points.push_back(b);
      heading = -heading;
      continue;
    }
    heading = pull < 0 ? -1 : 1;
    path.points.push_back({a.x, a.y + pull});
    path.points.push_back({b.x, b.y - pull});
    path.points.push_back(b);
  }
  return path;
}

Result<Layout> layoutGraph(const VisibleGraph& graph, const LayoutOptions& options, const CancelToken& cancel) {
  if (options.engine == LayoutEngine::Graphviz && graph.boxes.size() <= options.graphvizBoxes) {
    Result<Layout> drawn = layoutGraphviz(graph, options, cancel);
    if (drawn || drawn.error().kind == ErrorKind::Cancelled) return drawn;
  }
  return layoutLayered(graph, options, cancel);
}

}  // namespace graft
