// GroupOrder: an order of groups in which each stands behind what it reads, kept while groups merge. It answers whether
// a path leads from one group to another by looking at what stands between the two alone.
//
//   GroupOrder order(groups.size());               // group i reads groups before i
//   if (!order.hasPath(a, b, neighbours)) { … join a and b … order.merge(a, b, neighbours); }
//
// The algorithm is that of Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2006),
// for contractions: what stands between two that merge moves only where it depends on the first or the second needs it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace graft {

class GroupOrder {
 public:
  /// The groups that read the group (`after`), or that it reads.
  using Neighbours = std::function<const std::set<uint32_t>&(uint32_t group, bool after)>;

  explicit GroupOrder(size_t groups);
  /// Whether a path leads from a to b through a third group. None does where a stands behind b: for two of which
  /// neither reads the other, ask both ways.
  bool hasPath(uint32_t a, uint32_t b, const Neighbours&) const;
  /// Before `gone` goes into `stays`, while both still have their neighbours. No path leads from one to the other
  /// through a third.
  void merge(uint32_t gone, uint32_t stays, const Neighbours&);

 private:
  /// What is reached from `from` and stands between both, in no order. The edge between both does not count.
  std::vector<uint32_t> reached(uint32_t from, uint32_t to, bool after, const Neighbours&) const;

  std::vector<uint32_t> places_;                              // by group
  mutable std::vector<uint32_t> seenForward_, seenBackward_;  // by group: the search that saw it last
  mutable uint32_t search_ = 0;
};

}  // namespace graft
