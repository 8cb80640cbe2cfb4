#include "views/layout/edge_labels.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "views/layout/taken.h"

namespace graft {

Rect labelRect(const EdgeLabel& label) {
  constexpr double above = 8, below = 2;
  const double width = textWidth(label.text, Metrics::labelSize);
  return {label.at.x, label.at.y - above, width, above + below};
}

std::string shortLabel(const std::string& text) {
  constexpr std::string_view times = "×", cut = "…";
  const size_t type = text.rfind(' ');
  const bool hasType = type != std::string::npos && text.find_first_of("()/", type) == std::string::npos;
  const std::string sizes = text.substr(0, hasType ? type : std::string::npos);
  std::string out;
  for (size_t at = 0; at <= sizes.size();) {
    const size_t end = std::min(sizes.find(times, at), sizes.size());
    const std::string one = sizes.substr(at, end - at);
    if (at > 0) out += times;
    out += one.find_first_of("+-*/(") == std::string::npos ? std::string_view(one) : cut;
    at = end == sizes.size() ? end + 1 : end + times.size();
  }
  return hasType ? out + text.substr(type) : out;
}

namespace {

/// Ways that run far straight on: a word on one of them would seem to be its label.
Taken farWays(const Layout& layout) {
  constexpr double far = 120;
  Taken ways;
  for (const EdgePath& edge : layout.edges)
    for (size_t i = 3; i < edge.points.size(); i += 3) {
      const Point a = edge.points[i - 3], b = edge.points[i];
      if (std::abs(a.x - b.x) < 0.5 && std::abs(a.y - b.y) > far)
        ways.add({a.x - 1, std::min(a.y, b.y), 2, std::abs(a.y - b.y)});
    }
  return ways;
}

}  // namespace

void clearLabels(const VisibleGraph& graph, Layout& layout) {
  constexpr double beside = 5, above = 4, border = 3, stack = 6;  // the last: of the boxes behind one that repeats
  Taken taken;
  for (size_t i = 0; i < graph.boxes.size(); ++i)
    if (Rect r = layout.boxes[i]; !graph.boxes[i].open) {
      if (graph.boxes[i].repeat > 1) r.width += stack, r.height += stack;
      taken.add(r);
    }
  const bool isDown = layout.flow == Flow::Down;
  const Taken ways = isDown && !layout.labels.empty() ? farWays(layout) : Taken();
  std::vector<EdgeLabel> kept, tried;
  for (const EdgeLabel& label : layout.labels) {
    const auto edge = static_cast<size_t>(label.edge);
    const auto from = static_cast<size_t>(graph.edges[edge].from);
    const Point way = layout.edges[edge].points.front();
    // Of one that is cut, the end that is at the way stays there.
    const auto withText = [&](EdgeLabel other, std::string text) {
      if (other.at.x < way.x)
        other.at.x += textWidth(other.text, Metrics::labelSize) - textWidth(text, Metrics::labelSize);
      other.text = std::move(text);
      return other;
    };
    tried = {label, label};
    if (isDown)
      tried[1].at.x = label.at.x < way.x ? way.x + beside : way.x - beside - labelRect(label).width;
    else
      tried[1].at.y = layout.boxes[from].y - above;
    if (std::string text = shortLabel(label.text); isDown && text != label.text)
      tried.insert(tried.end(), {withText(tried[0], text), withText(tried[1], text)});
    const int around = graph.boxes[from].parent;
    const auto isIn = [&](const Rect& r) {
      if (!isDown) return true;
      if (!ways.isFree(r)) return false;
      if (around < 0) return true;
      const Rect& frame = layout.boxes[static_cast<size_t>(around)];
      return r.x >= frame.x + border && r.right() <= frame.right() - border;
    };
    const EdgeLabel* best = nullptr;
    for (const bool isStrict : {true, false})
      for (size_t i = 0; i < tried.size() && !best; ++i) {
        // Where none stays in its module, the shortest runs out of it.
        const EdgeLabel& one = tried[isStrict ? i : (i + tried.size() - 2) % tried.size()];
        const Rect r = labelRect(one);
        if ((!isStrict || isIn(r)) && taken.isFree(r)) best = &one;
      }
    if (!best) continue;
    taken.add(labelRect(*best));
    kept.push_back(*best);
  }
  layout.labels = std::move(kept);
}

}  // namespace graft
