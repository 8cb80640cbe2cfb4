// A level in which something runs back, as the backward pass of a training step does: it stands beside what runs there,
// turned by half a circle, so that its beginning is beside the end of the other and its end beside the other's
// beginning.
#include <algorithm>
#include <map>

#include "views/layout/layered/level.h"

namespace graft {

/// None where nothing runs back, or nothing else is there.
void Level::findTurn() {
  int first = INT32_MAX;
  for (const LevelItem& item : items)
    if (item.isBack) first = std::min(first, item.layer);
  if (first != INT32_MAX) turn_ = first;
}

void Level::mirror() {
  constexpr double gutter = 48, way = 10;
  const int first = turn_;
  const auto isBack = [&](int item) { return items[item].layer >= first; };
  double there = 0, left = 0, right = 0;  // the right end of what runs there; the ends of the way back
  bool isFirst = true;
  for (size_t i = 0; i < items.size(); ++i) {
    const double a = items[i].x - items[i].width / 2, b = items[i].right();
    if (!isBack(static_cast<int>(i))) {
      there = std::max(there, b);
      continue;
    }
    left = isFirst ? a : std::min(left, a);
    right = isFirst ? b : std::max(right, b);
    isFirst = false;
  }
  // What goes over the turn, by upper item and net: where.
  std::map<std::pair<int, uint32_t>, double> over;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].isFar) continue;
    const auto& chain = chains_[e];
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      if (isBack(chain[i]) || !isBack(chain[i + 1])) continue;
      const double offset = i > 0 ? 0 : reversed_[e] ? edges[e].toOffset : edges[e].fromOffset;
      over.try_emplace({chain[i], edges[e].net}, items[chain[i]].x + offset);
    }
  }

  const auto lastThere = static_cast<size_t>(first - 1), firstBack = static_cast<size_t>(first);
  const double begin = top_[firstBack], backHeight = bottom_.back() - begin;
  const double foot = std::max(bottom_[lastThere] + longest_[lastThere], backHeight);
  const double down = foot - bottom_[lastThere] - longest_[lastThere];
  const double across = there + gutter + right;  // x there and x here make this
  const auto turned = [&](double x, double y) { return Point{across - x, foot + begin - y}; };
  // The turns lie one inside the other.
  std::vector<std::pair<double, std::pair<int, uint32_t>>> order;
  for (const auto& [what, x] : over) order.push_back({x, what});
  std::sort(order.rbegin(), order.rend());
  std::map<std::pair<int, uint32_t>, double> turnOf;  // its y
  for (const auto& [x, what] : order) turnOf[what] = foot + way * static_cast<double>(turnOf.size());

  for (size_t e = 0; e < edges.size(); ++e) {
    LevelEdge& edge = edges[e];
    const auto& chain = chains_[e];
    const auto placed = [&](int item, Point p) { return isBack(item) ? turned(p.x, p.y) : Point{p.x, p.y + down}; };
    if (edge.isFar) {
      for (Point& p : edge.stops) p = placed(edge.to, p);
      continue;
    }
    if (reversed_[e]) std::reverse(edge.stops.begin(), edge.stops.end());
    std::vector<Point> stops;
    for (size_t i = 0; i < chain.size(); ++i) {
      for (size_t k = 2 * i; k < 2 * i + 2; ++k) stops.push_back(placed(chain[i], edge.stops[k]));
      if (i + 1 == chain.size() || isBack(chain[i]) || !isBack(chain[i + 1])) continue;
      const double y = turnOf.at({chain[i], edge.net});
      stops.push_back({stops.back().x, y});
      stops.push_back({placed(chain[i + 1], edge.stops[2 * i + 2]).x, y});
    }
    if (reversed_[e]) std::reverse(stops.begin(), stops.end());
    edge.stops = std::move(stops);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    LevelItem& item = items[i];
    if (!isBack(static_cast<int>(i))) {
      item.y += down;
      continue;
    }
    const Point p = turned(item.x, item.y + item.height);
    item.x = p.x;
    item.y = p.y;
  }
  width = across - left;
  constexpr double deepest = 40;  // of a turn's curve
  height = foot + way * static_cast<double>(turnOf.size()) + deepest;
}

}  // namespace graft
