// Dead ends: operators that no way from an input to an output leads through, so that a drawing may show several of them
// as one box. What depends on weights, literals and sizes alone, and what nothing uses. Those of one module that hang
// together are one fold, if they are two at least.
//
//   DeadEnds ends = findDeadEnds(graph, hidden);
//   if (NodeId last = ends.of[id.index]) … ends.folds.at(last).nodes
#pragma once

#include <map>
#include <vector>

#include "views/layout/visible_graph.h"

namespace graft {

struct DeadEnds {
  struct Fold {
    graft::Fold kind = graft::Fold::None;
    std::vector<NodeId> nodes;  ///< in order; the last one stands for all
  };
  std::vector<NodeId> of;  ///< by node: the last node of its fold; none of those that are in none
  std::map<NodeId, Fold> folds;
  std::vector<char> isConstant;  ///< by node: it depends on no number of an input
};

/// `isHidden` by node: it is not drawn anyhow. A graph without inputs has no constants, one without outputs uses all.
DeadEnds findDeadEnds(const Graph& graph, const std::vector<char>& isHidden);

}  // namespace graft
