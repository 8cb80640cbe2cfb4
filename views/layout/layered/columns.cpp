// A level that is much taller than wide goes on in another column, as text does: it is cut between two layers, and what
// flows over the cut turns at the foot of a column, runs up beside it and comes in at the head of the next.
#include <algorithm>
#include <cmath>
#include <map>

#include "views/layout/layered/level.h"

namespace graft {
namespace {

constexpr size_t mostOverACut = 12;  // values: with more of them, nobody could follow the turns
constexpr double turn = 44;          // room for turns at head and foot
constexpr double way = 10, gutter = 24;

struct Column {
  int first = 0, last = 0;                            ///< layers
  double left = 0, right = 0;                         ///< of what stands in it, before and …
  double dx = 0, dy = 0;                              ///< … how far it moves
  std::map<std::pair<int, uint32_t>, double> ways{};  ///< by upper item and net of what goes on in the next: x
};

}  // namespace

/// The layer that is nearly all of the level, where several follow it; -1 where there is none.
int Level::headOf() const {
  constexpr double nearlyAll = 0.6;
  constexpr int fewest = 3;
  for (int l = 0; l + fewest < static_cast<int>(layers_.size()); ++l)
    if (bottom_[l] - top_[l] >= nearlyAll * height) return l;
  return -1;
}

void Level::breakIntoColumns(const Options& options) {
  const double wanted = options.shape;
  const int layers = static_cast<int>(layers_.size());
  const int head = options.tail ? headOf() : -1;
  const bool isSlim = height >= options.low && height * wanted >= options.slim * width && layers >= 4;
  if (!isSlim && head < 0) return;
  const double wish = std::sqrt(wanted * height / (width + 2 * gutter));
  const double most = height / std::max(2.0, std::round(wish));
  // What crosses the boundary below each layer.
  std::vector<std::map<std::pair<int, uint32_t>, double>> over(static_cast<size_t>(layers));
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].isFar) continue;
    const auto& chain = chains_[e];
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      const double offset = i > 0 ? 0 : reversed_[e] ? edges[e].toOffset : edges[e].fromOffset;
      over[static_cast<size_t>(items[chain[i]].layer)].try_emplace({chain[i], edges[e].net},
                                                                   items[chain[i]].x + offset);
    }
  }
  std::vector<Column> columns(1);
  if (!isSlim && over[static_cast<size_t>(head)].size() <= mostOverACut) {
    columns.back().last = head;
    columns.push_back({.first = head + 1, .last = layers - 1});
  }
  for (int l = 0; isSlim && l + 1 < layers;) {
    // Near where the column is full: the boundary that the fewest values cross.
    int best = -1;
    const double start = top_[columns.back().first];
    for (; l + 1 < layers && bottom_[l] - start < 1.25 * most; ++l) {
      if (bottom_[l] - start < 0.75 * most || height - bottom_[l] < 0.3 * most) continue;
      const auto cost = [&](int at) {
        return static_cast<double>(over[static_cast<size_t>(at)].size()) +
               4 * std::abs(bottom_[at] - start - most) / most;
      };
      if (best < 0 || cost(l) < cost(best)) best = l;
    }
    // One layer that is too tall for the rest of this column begins the next one, or is a column of its own.
    const double least = 0.3 * most;
    if (best < 0 && options.early && l > columns.back().first && bottom_[l - 1] - start >= least &&
        bottom_[l] - top_[l] >= least && over[static_cast<size_t>(l - 1)].size() <= mostOverACut)
      best = l - 1;
    else if (best < 0 && l + 1 < layers && height - bottom_[l] >= 0.3 * most)
      best = l;
    if (best < 0) {
      if (l + 1 < layers) ++l;
      continue;
    }
    if (over[static_cast<size_t>(best)].size() > mostOverACut) {
      l = std::max(l, best + 1);
      continue;
    }
    columns.back().last = best;
    columns.push_back({.first = best + 1, .last = layers - 1});
    l = best + 1;
  }
  if (columns.size() < 2) return;
  columns.back().last = layers - 1;

  // Where the turns begin: below the last layer, and what its labels take.
  const auto footOf = [&](const Column& column) {
    const auto last = static_cast<size_t>(column.last);
    return bottom_[last] + column.dy + (last + 1 < bottom_.size() ? longest_[last] : 0);
  };
  std::vector<size_t> columnOf(static_cast<size_t>(layers));
  double left = 0, lowest = 0;
  for (size_t c = 0; c < columns.size(); ++c) {
    Column& column = columns[c];
    bool isFirst = true;
    for (int l = column.first; l <= column.last; ++l) {
      columnOf[static_cast<size_t>(l)] = c;
      for (int i : layers_[static_cast<size_t>(l)]) {
        const double a = items[i].x - items[i].width / 2, b = items[i].right();
        column.left = isFirst ? a : std::min(column.left, a);
        column.right = isFirst ? b : std::max(column.right, b);
        isFirst = false;
      }
    }
    column.dx = left - column.left;
    column.dy = (c == 0 ? 0 : turn) - top_[static_cast<size_t>(column.first)];
    left += column.right - column.left + gutter;
    const bool isLast = c + 1 == columns.size();
    lowest = std::max(lowest, footOf(column) + (isLast ? 0 : turn));
    if (isLast) break;
    // From right to left: the turns lie one inside the other.
    column.ways = over[static_cast<size_t>(column.last)];
    std::vector<std::pair<double, std::pair<int, uint32_t>>> order;
    for (const auto& [what, x] : column.ways) order.push_back({x, what});
    std::sort(order.rbegin(), order.rend());
    for (const auto& [x, what] : order) {
      column.ways[what] = left;
      left += way;
    }
    left += gutter;
  }
  width = left - gutter;
  height = lowest;

  for (LevelItem& item : items) {
    const Column& column = columns[columnOf[static_cast<size_t>(item.layer)]];
    item.x += column.dx;
    item.y = item.kind == LevelItem::Kind::OutPort ? height : item.y + column.dy;
  }
  for (size_t e = 0; e < edges.size(); ++e) {
    LevelEdge& edge = edges[e];
    const auto& chain = chains_[e];
    const auto columnAt = [&](int item) { return columnOf[static_cast<size_t>(items[item].layer)]; };
    if (edge.isFar) {
      const Column& column = columns[columnAt(edge.to)];
      for (Point& p : edge.stops) p = {p.x + column.dx, p.y + column.dy};
      continue;
    }
    if (reversed_[e]) std::reverse(edge.stops.begin(), edge.stops.end());
    std::vector<Point> stops;
    for (size_t i = 0; i < chain.size(); ++i) {
      const size_t c = columnAt(chain[i]);
      const Column& column = columns[c];
      for (size_t k = 2 * i; k < 2 * i + 2; ++k)
        stops.push_back({edge.stops[k].x + column.dx, edge.stops[k].y + column.dy});
      if (i + 1 == chain.size() || columnAt(chain[i + 1]) == c) continue;
      const Column& next = columns[c + 1];
      const double x = column.ways.at({chain[i], edge.net});
      stops.push_back({stops.back().x, footOf(column)});
      stops.push_back({x, footOf(column)});
      stops.push_back({x, top_[static_cast<size_t>(next.first)] + next.dy});
      stops.push_back({edge.stops[2 * i + 2].x + next.dx, stops.back().y});
    }
    if (items[chain.back()].kind == LevelItem::Kind::OutPort) stops.back().y = height;
    if (reversed_[e]) std::reverse(stops.begin(), stops.end());
    edge.stops = std::move(stops);
  }
}

}  // namespace graft
