#include "tests/views/support/layout_quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace graft::test {
namespace {

struct Piece {
  Point a, b;
  int edge;
};

double side(Point a, Point b, Point c) { return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x); }

bool cross(const Piece& p, const Piece& q) {
  constexpr double touch = 1e-6;
  return side(p.a, p.b, q.a) * side(p.a, p.b, q.b) < -touch && side(q.a, q.b, p.a) * side(q.a, q.b, p.b) < -touch;
}

/// Edges as straight pieces between their stops; ways that edges share count once.
std::vector<Piece> piecesOf(const VisibleGraph& view, const Layout& layout) {
  std::vector<Piece> pieces;
  std::set<std::array<long, 4>> known;
  const auto isNew = [&](Point a, Point b) {
    constexpr double parts = 16;  // of a pixel
    return known
        .insert(
            {std::lround(a.x * parts), std::lround(a.y * parts), std::lround(b.x * parts), std::lround(b.y * parts)})
        .second;
  };
  for (size_t e = 0; e < view.edges.size(); ++e) {
    const auto& q = layout.edges[e].points;
    for (size_t i = 3; i < q.size(); i += 3)
      if (isNew(q[i - 3], q[i])) pieces.push_back({q[i - 3], q[i], static_cast<int>(e)});
  }
  return pieces;
}

size_t countCrossings(const VisibleGraph& view, const std::vector<Piece>& pieces) {
  constexpr double cell = 200;
  std::unordered_map<int64_t, std::vector<int>> grid;
  std::unordered_set<uint64_t> seen;
  size_t crossings = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& p = pieces[i];
    const auto cellOf = [](double v) { return static_cast<int64_t>(std::floor(v / cell)); };
    for (int64_t x = cellOf(std::min(p.a.x, p.b.x)); x <= cellOf(std::max(p.a.x, p.b.x)); ++x)
      for (int64_t y = cellOf(std::min(p.a.y, p.b.y)); y <= cellOf(std::max(p.a.y, p.b.y)); ++y) {
        auto& here = grid[x * 1'000'003 + y];
        for (const int k : here) {
          const Piece& other = pieces[static_cast<size_t>(k)];
          const VisibleEdge &e = view.edges[static_cast<size_t>(p.edge)],
                            &f = view.edges[static_cast<size_t>(other.edge)];
          if (e.value == f.value || !cross(p, other)) continue;
          if (seen.insert(static_cast<uint64_t>(i) << 32 | static_cast<uint32_t>(k)).second) ++crossings;
        }
        here.push_back(static_cast<int>(i));
      }
  }
  return crossings;
}

/// Where the way stands at that height; NaN where it does not come there.
double xAt(const std::vector<Point>& points, double y) {
  for (size_t i = 3; i < points.size(); i += 3)
    if (points[i].y >= y - 0.5 && points[i - 3].y <= y + 0.5)
      return std::abs(points[i].y - y) < 0.6 ? points[i].x : points[i - 3].x;
  return std::nan("");
}

/// The longest way through the children of each container, by the boxes on it: how many neighbours stand one below the
/// other, of how many.
std::pair<size_t, size_t> straightPairs(const VisibleGraph& view, const Layout& layout) {
  const size_t n = view.boxes.size();
  std::vector<std::unordered_map<int, std::vector<size_t>>> next(n);  // by box and the next one: edges
  for (size_t index = 0; index < view.edges.size(); ++index) {
    const VisibleEdge& e = view.edges[index];
    const int common = view.commonContainer(e.from, e.to);
    int from = e.from, to = e.to;
    while (view.boxes[static_cast<size_t>(from)].parent != common) from = view.boxes[static_cast<size_t>(from)].parent;
    while (view.boxes[static_cast<size_t>(to)].parent != common) to = view.boxes[static_cast<size_t>(to)].parent;
    if (from < to) next[static_cast<size_t>(from)][to].push_back(index);  // boxes are in order: no way leads back
  }
  size_t straight = 0, all = 0;
  const auto measure = [&](const std::vector<int>& children) {
    std::unordered_map<int, std::pair<int, int>> best;  // by box: the longest way down, and where it goes
    int start = -1;
    for (auto it = children.rbegin(); it != children.rend(); ++it) {
      std::pair<int, int> own{1, -1};
      for (const auto& [to, between] : next[static_cast<size_t>(*it)])
        if (const auto known = best.find(to); known != best.end() && known->second.first + 1 > own.first)
          own = {known->second.first + 1, to};
      best[*it] = own;
      if (start < 0 || own.first >= best[start].first) start = *it;
    }
    while (start >= 0 && best[start].second >= 0) {
      const int to = best[start].second;
      ++all;
      const Rect &upper = layout.boxes[static_cast<size_t>(start)], &lower = layout.boxes[static_cast<size_t>(to)];
      const auto goesDown = [&](size_t e) {
        const auto& points = layout.edges[e].points;
        return std::abs(xAt(points, upper.bottom()) - xAt(points, lower.y)) < 1;
      };
      const auto& between = next[static_cast<size_t>(start)][to];
      straight +=
          std::abs(upper.centerX() - lower.centerX()) < 1 || std::any_of(between.begin(), between.end(), goesDown);
      start = to;
    }
  };
  measure(view.roots);
  for (const Box& box : view.boxes)
    if (box.open) measure(box.children);
  return {straight, all};
}

/// A drawing that runs to the right as one that runs down.
Layout turned(Layout layout) {
  for (Rect& r : layout.boxes) r = {r.y, r.x, r.height, r.width};
  for (EdgePath& edge : layout.edges)
    for (Point& p : edge.points) std::swap(p.x, p.y);
  return layout;
}

}  // namespace

LayoutQuality qualityOf(const VisibleGraph& view, const Layout& layout, double paneWidth, double paneHeight) {
  LayoutQuality q;
  q.boxes = view.boxes.size();
  q.edges = view.edges.size();
  const Layout down = layout.flow == Flow::Right ? turned(layout) : layout;
  const std::vector<Piece> pieces = piecesOf(view, down);
  q.crossings = countCrossings(view, pieces);
  for (const Piece& p : pieces) q.bends += std::abs(p.a.x - p.b.x) > 1;
  const auto [straight, all] = straightPairs(view, down);
  if (all > 0) q.straightness = static_cast<double>(straight) / static_cast<double>(all);
  q.width = layout.width;
  q.height = layout.height;
  q.fitScale = std::min({(paneWidth - 16) / layout.width, (paneHeight - 16) / layout.height, 1.25});
  size_t closed = 0, named = 0;
  for (size_t i = 0; i < view.boxes.size(); ++i) {
    if (view.boxes[i].open) continue;
    ++closed;
    using S = SmallMetrics;
    const double wide = layout.boxes[i].width * q.fitScale, room = wide - 2 * S::padding(wide);
    named += room >= textWidth(view.boxes[i].title.substr(0, S::fewest), S::letters) &&
             layout.boxes[i].height * q.fitScale >= S::lowest;
  }
  if (closed > 0) q.readable = static_cast<double>(named) / static_cast<double>(closed);
  return q;
}

}  // namespace graft::test
