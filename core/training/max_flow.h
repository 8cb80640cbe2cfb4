// MaxFlow: the most that can flow from one vertex to another along edges of limited capacity, and with it the cheapest
// set of edges whose removal parts the two. Dinitz's algorithm (E. A. Dinitz, 1970): it sends flow along shortest
// paths, all paths of one length at a time. Deterministic.
//
//   MaxFlow flow(3);
//   flow.addEdge(0, 1, 5);
//   flow.addEdge(1, 2, 3);
//   flow.run(0, 2);               // 3
//   flow.isOnSourceSide(1);       // true: the cut goes through the second edge
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graft {

class MaxFlow {
 public:
  using Capacity = int64_t;
  /// No sum of finite capacities may reach it.
  static constexpr Capacity infinite = INT64_MAX / 4;

  explicit MaxFlow(size_t vertices) : first_(vertices, none) {}
  void addEdge(size_t from, size_t to, Capacity capacity);
  /// The most that flows from source to sink; `infinite` where a path has no finite edge.
  Capacity run(size_t source, size_t sink);
  /// After run: whether the vertex stays with the source when the cheapest edges are cut. Of all cheapest cuts it is
  /// the one closest to the source.
  bool isOnSourceSide(size_t vertex) const { return level_[vertex] >= 0; }

 private:
  struct Edge {
    size_t to, next;
    Capacity left;
  };
  static constexpr size_t none = SIZE_MAX;

  bool findLevels(size_t source, size_t sink);
  Capacity sendAlongOnePath(size_t source, size_t sink);

  std::vector<size_t> first_;  // edge of each vertex; the edge beside it (index ^ 1) goes back
  std::vector<Edge> edges_;
  std::vector<int> level_;       // distance from the source along edges with capacity left; -1: out of reach
  std::vector<size_t> current_;  // the edge of each vertex that is tried next
};

}  // namespace graft
