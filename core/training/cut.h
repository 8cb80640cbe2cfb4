// The cut between the two halves of a training step: which values the forward half keeps for the backward half, and
// which nodes the backward half computes again. It is a minimum cut: of all ways to part the graph that no ban forbids
// it keeps the fewest bytes, weighted as the published partitioners weight them.
//
// Sources: T. Chen, B. Xu, C. Zhang, C. Guestrin: Training Deep Nets with Sublinear Memory Cost, 2016 (computing again
// instead of keeping); PyTorch's functorch partitioner (H. He, 2022), for the minimum cut, its weights and its bans.
//
//   Result<Cut> cut = minimumCut(joint, {});
//   cut->saved[0].reason;                     // "matrix product: expensive to compute again"
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/training/joint.h"

namespace graft {

/// What somebody decided: it goes before all bans but randomness.
struct Pins {
  std::vector<ValueId> save;      ///< always kept, where a gradient depends on them
  std::vector<NodeId> recompute;  ///< never kept, where a gradient depends on them
};

/// Which nodes may be computed again, from none to all that can be.
enum class Looseness : uint8_t {
  Nothing,   ///< views alone: everything that the backward pass reads is kept, as PyTorch does without a partitioner
  Cheap,     ///< what runs inside another kernel, but for what other bans keep from it; the default
  Moderate,  ///< all but products, convolutions and attention
  All,       ///< all that draws no random numbers
};

struct CutOptions {
  Looseness looseness = Looseness::Cheap;
  /// Nodes that may be computed again although `looseness` says no, by NodeId::index; empty: none.
  std::vector<char> alsoAgain;
  Pins pins;
};

struct Saved {
  ValueId value;
  std::string reason;  ///< why it is kept and not computed again
};
struct Recomputed {
  NodeId node;
  std::string reason;
};
struct Cut {
  std::vector<Saved> saved;            ///< in the graph's order, inputs first; without what is there anyway
  std::vector<Recomputed> recomputed;  ///< in the graph's order
  std::vector<char> bannedNodes;       ///< by NodeId::index: what this cut would not compute again
  size_t bytes = 0;                    ///< of `saved`
  double microseconds = 0;             ///< of `recomputed`, as JointGraph::microseconds has them
};

/// BadInput where pins ask for what cannot be; the message names the value.
Result<Cut> minimumCut(const JointGraph&, const CutOptions&);

}  // namespace graft
