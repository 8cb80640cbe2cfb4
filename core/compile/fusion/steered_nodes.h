// A steering as nodes of one graph: which are to be in one group, which not, and which of its names are no node.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/steering.h"
#include "core/ir/graph.h"

namespace graft {

struct FusionPlan;

/// Where nodes, or groups of them, stand in the entries that keep nodes apart: (entry, side), sorted. Two that stand on
/// different sides of one entry may not be in one group.
using Sides = std::vector<std::pair<uint32_t, uint32_t>>;
/// The entry on whose different sides they stand.
std::optional<uint32_t> conflictOf(const Sides&, const Sides&);
Sides joined(const Sides&, const Sides&);

struct SteeredNodes {
  struct Merge {
    std::string entry;
    std::vector<NodeId> nodes;
  };
  std::vector<Merge> merges;
  std::vector<Sides> sides;               ///< by NodeId's index
  std::vector<std::string> apartEntries;  ///< by the number in Sides
  std::vector<SteeringProblem> problems;
};
/// `before`: the plan without what `move` says; needed where it says something. Nodes that are to stay out of all
/// groups become barriers; a node that is listed by itself may have a kernel by itself.
SteeredNodes steeredNodes(const Graph&, std::vector<FusionNode>&, const Steering&, const FusionPlan* before);
/// Gives the plan's groups what the steering chooses for their kernels, where that can be made.
void chooseKernels(const Graph&, const Steering&, FusionPlan&);

}  // namespace graft
