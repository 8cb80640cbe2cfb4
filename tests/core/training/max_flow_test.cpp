#include "core/training/max_flow.h"

#include <algorithm>
#include <random>

#include "tests/support/catch.h"

namespace graft {
namespace {

struct Edge {
  size_t from, to;
  MaxFlow::Capacity capacity;
};

MaxFlow::Capacity cheapestCut(size_t vertices, const std::vector<Edge>& edges) {
  MaxFlow::Capacity best = MaxFlow::infinite;
  for (size_t side = 0; side < (size_t{1} << vertices); ++side) {
    if (!(side & 1) || (side & 2)) continue;  // vertex 0 is the source, 1 the sink
    MaxFlow::Capacity cost = 0;
    for (const Edge& e : edges)
      if ((side >> e.from & 1) && !(side >> e.to & 1)) cost += e.capacity;
    best = std::min(best, cost);
  }
  return best;
}

TEST_CASE("the flow is as large as the cheapest cut, and the sides are such a cut") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t vertices = 2 + random() % 6;
    std::vector<Edge> edges(random() % 20);
    MaxFlow flow(vertices);
    for (Edge& e : edges) {
      e = {random() % vertices, random() % vertices, static_cast<MaxFlow::Capacity>(random() % 10)};
      flow.addEdge(e.from, e.to, e.capacity);
    }
    const MaxFlow::Capacity most = flow.run(0, 1);
    CHECK(most == cheapestCut(vertices, edges));
    MaxFlow::Capacity crossing = 0;
    for (const Edge& e : edges)
      if (flow.isOnSourceSide(e.from) && !flow.isOnSourceSide(e.to)) crossing += e.capacity;
    CHECK(crossing == most);
    CHECK(flow.isOnSourceSide(0));
    CHECK_FALSE(flow.isOnSourceSide(1));
  }
}

TEST_CASE("a path without a finite edge has no cut") {
  MaxFlow flow(3);
  flow.addEdge(0, 2, MaxFlow::infinite);
  flow.addEdge(2, 1, MaxFlow::infinite);
  CHECK(flow.run(0, 1) == MaxFlow::infinite);
}

TEST_CASE("a path of 100,000 vertices takes no stack") {
  constexpr size_t n = 100'000;
  MaxFlow flow(n);
  for (size_t i = 0; i + 1 < n; ++i) flow.addEdge(i, i + 1, i == 70'000 ? 3 : MaxFlow::infinite);
  CHECK(flow.run(0, n - 1) == 3);
  CHECK(flow.isOnSourceSide(70'000));
  CHECK_FALSE(flow.isOnSourceSide(70'001));
}

}  // namespace
}  // namespace graft
