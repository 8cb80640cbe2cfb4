// Ways to break a match: from a graph that a rule matches, graphs that it does not match any more, each with the one
// thing that is wrong and where. Made from the rule's own match, so a new rule is broken in all of these ways by
// itself.
#pragma once

#include <string>
#include <vector>

#include "matcher/search/search.h"

namespace graft::test {

struct Mutation {
  std::string what;  ///< "softmax.dim = 0"
  Graph graph;
  // What the first near miss must say: the place by graph node or by pattern node, one of the reasons, the parameter.
  std::vector<NodeId> at, pattern;
  std::vector<Reason> reasons;
  std::string parameter;   ///< empty: none is asked for
  bool keepsNodes = true;  ///< the match's nodes are all still there, so that it can be broken once more

  bool isNamedBy(const NearMiss&) const;
};

std::vector<Mutation> mutationsOf(const Graph&, const Rule&, const Match&, const OperatorSet&);

}  // namespace graft::test
