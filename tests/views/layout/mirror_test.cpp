// The joint graph of a training step: the backward pass stands beside the forward pass and runs up.
#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/views/support/sample_graphs.h"
#include "views/layout/layout.h"
#include "views/layout/node_text.h"

using namespace graft;

namespace {

bool isInside(const VisibleGraph& view, int box, int container) {
  for (; box >= 0; box = view.boxes[static_cast<size_t>(box)].parent)
    if (box == container) return true;
  return false;
}

int boxTitled(const VisibleGraph& view, std::string_view title) {
  for (size_t i = 0; i < view.boxes.size(); ++i)
    if (view.boxes[i].title == title) return static_cast<int>(i);
  FAIL(std::string(title));
  return -1;
}

}  // namespace

TEST_CASE("no other edge of a box comes between an edge and its label, where there is a side without one") {
  const Graph g = test::trainingStep(4);
  const VisibleGraph view = makeVisibleGraph(g, {.depth = 1, .foldRepeats = false});
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  size_t several = 0;
  for (const EdgeLabel& label : layout->labels) {
    const int from = view.edges[static_cast<size_t>(label.edge)].from;
    const double own = layout->edges[static_cast<size_t>(label.edge)].points.front().x;
    const double width = textWidth(label.text, Metrics::labelSize), middle = label.at.x + width / 2;
    bool hasLeft = false, hasRight = false, isBetween = false;
    for (size_t e = 0; e < view.edges.size(); ++e) {
      if (view.edges[e].from != from || layout->edges[e].points.empty()) continue;
      const double x = layout->edges[e].points.front().x;
      if (std::abs(x - own) < 1) continue;
      ++several;
      hasLeft |= x < own && x > own - 5 - width;
      hasRight |= x > own && x < own + 5 + width;
      isBetween |= x > std::min(own, middle) && x < std::max(own, middle);
    }
    if (!hasLeft || !hasRight) CHECK_FALSE(isBetween);
  }
  CHECK(several > 0);
}

TEST_CASE("the backward pass stands beside the forward pass and runs the other way") {
  const Graph g = test::trainingStep(4);
  for (const Flow flow : {Flow::Down, Flow::Right})
    for (const int depth : {0, 1, 2, -1}) {
      const VisibleGraph view = makeVisibleGraph(g, {.depth = depth, .foldRepeats = false, .flow = flow});
      const Result<Layout> layout = layoutLayered(view, {.flow = flow});
      REQUIRE(layout);
      // As if both ran down.
      const auto turned = [&](Rect r) { return flow == Flow::Down ? r : Rect{r.y, r.x, r.height, r.width}; };
      const auto rect = [&](int box) { return turned(layout->boxes[static_cast<size_t>(box)]); };
      const int forward = boxTitled(view, "model"), backward = boxTitled(view, "model, backward");
      CHECK(rect(backward).x > rect(forward).right());
      CHECK(rect(backward).y < rect(forward).bottom());
      CHECK(rect(boxTitled(view, "tangents_1")).y > rect(backward).bottom());
      CHECK(rect(boxTitled(view, "output 4")).bottom() < rect(backward).y);
      CHECK(rect(boxTitled(view, "output 0")).y > rect(forward).bottom());
      CHECK(rect(boxTitled(view, "x")).bottom() < rect(forward).y);

      const auto isBack = [&](int box) {
        const Box& b = view.boxes[static_cast<size_t>(box)];
        return isInside(view, box, backward) || b.title == "tangents_1" ||
               (b.title.starts_with("output") && b.title != "output 0");
      };
      int overlaps = 0, loose = 0, outside = 0, labels = 0;
      for (size_t i = 0; i < view.boxes.size(); ++i) {
        const Rect a = layout->boxes[i];
        const int parent = view.boxes[i].parent;
        const Rect outer =
            parent < 0 ? Rect{0, 0, layout->width, layout->height} : layout->boxes[static_cast<size_t>(parent)];
        outside +=
            a.x < outer.x || a.y < outer.y || a.right() > outer.right() + 0.5 || a.bottom() > outer.bottom() + 0.5;
        for (size_t k = 0; k < i; ++k) {
          const Rect b = layout->boxes[k];
          overlaps += view.boxes[k].parent == parent && a.x < b.right() && b.x < a.right() && a.y < b.bottom() &&
                      b.y < a.bottom();
        }
      }
      for (size_t e = 0; e < view.edges.size(); ++e) {
        const auto& points = layout->edges[e].points;
        REQUIRE(points.size() >= 4);
        const Rect from = rect(view.edges[e].from), to = rect(view.edges[e].to);
        const Rect a = turned({points.front().x, points.front().y, 0, 0}),
                   b = turned({points.back().x, points.back().y, 0, 0});
        // Down, it leaves below and comes in above; up, the other way round; what is kept leaves below and comes in
        // below.
        loose += std::abs(a.y - (isBack(view.edges[e].from) ? from.y : from.bottom())) > 1 || a.x < from.x ||
                 a.x > from.right();
        loose += std::abs(b.y - (isBack(view.edges[e].to) ? to.bottom() : to.y)) > 1 || b.x < to.x || b.x > to.right();
        for (const Point p : points) outside += p.x < 0 || p.y < 0 || p.x > layout->width || p.y > layout->height;
      }
      for (const EdgeLabel& label : layout->labels)
        for (size_t i = 0; i < view.boxes.size(); ++i) {
          const Rect& r = layout->boxes[i];
          labels += !view.boxes[i].open && label.at.x + 10 > r.x && label.at.x < r.right() && label.at.y > r.y + 1 &&
                    label.at.y - 7 < r.bottom();
        }
      INFO("depth " << depth << (flow == Flow::Down ? " down" : " right"));
      CHECK(overlaps == 0);
      CHECK(outside == 0);
      CHECK(loose == 0);
      CHECK(labels == 0);
    }
}

TEST_CASE("the layers of both passes stand in opposite orders") {
  const Graph g = test::trainingStep(4);
  const VisibleGraph view = makeVisibleGraph(g, {.depth = 1, .foldRepeats = false});
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  std::vector<std::vector<double>> tops(2);
  const int backward = boxTitled(view, "model, backward");
  for (size_t i = 0; i < view.boxes.size(); ++i)
    if (view.boxes[i].title.starts_with("layer"))
      tops[isInside(view, static_cast<int>(i), backward)].push_back(layout->boxes[i].y);
  REQUIRE(tops[0].size() == 4);
  REQUIRE(tops[1].size() == 4);
  CHECK(std::is_sorted(tops[0].begin(), tops[0].end()));    // layer 0 first
  CHECK(std::is_sorted(tops[1].rbegin(), tops[1].rend()));  // layer 3 first
}

TEST_CASE("a setting of no columns, and very many ways between the passes, leave both as they are") {
  // Forty ways and more from one pass to the other are too many to follow round a turn.
  const bool isManyWays = GENERATE(false, true);
  const Graph g = test::trainingStep(isManyWays ? 20 : 2);
  const VisibleGraph view = makeVisibleGraph(g, {.depth = -1, .foldRepeats = false});
  const Result<Layout> layout = layoutLayered(view, {.bundles = !isManyWays, .columns = isManyWays});
  REQUIRE(layout);
  // Nothing is turned: each edge leaves below and comes in above.
  for (size_t e = 0; e < view.edges.size(); ++e) {
    const auto& points = layout->edges[e].points;
    CHECK(std::abs(points.front().y - layout->boxes[static_cast<size_t>(view.edges[e].from)].bottom()) < 1);
    CHECK(std::abs(points.back().y - layout->boxes[static_cast<size_t>(view.edges[e].to)].y) < 1);
  }
  if (isManyWays) return;
  const Rect &forward = layout->boxes[static_cast<size_t>(boxTitled(view, "model"))],
             &backward = layout->boxes[static_cast<size_t>(boxTitled(view, "model, backward"))];
  CHECK(backward.y > forward.bottom());
}
