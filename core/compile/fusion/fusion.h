// Fusion: which nodes of a graph become one kernel. It changes nothing: the pass `fuse` puts the groups in place.
//
//   FusionPlan plan = planFusion(graph, {});
//   for (const FusionGroup& g : plan.groups) print(g.name, g.nodes.size(), g.savedMicroseconds);
//   for (const FusionDecision& d : plan.decisions) print(d.producer, d.consumer, d.isMerged, d.why);
//
// Producers and consumers merge in the order of what a merge saves, the most first, and what it makes of its neighbours
// is priced anew: XLA's priority fusion. Then siblings merge, groups that read the same value and do not depend on each
// other. The same graph gives the same plan. Time is O(E log E) of the edges E, for
// groups of a limited size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/compile/fusion/price.h"
#include "core/compile/fusion/steering.h"
#include "core/ir/graph.h"

namespace graft {

struct FusionOptions {
  std::vector<std::string> only = {};   ///< module paths, operators or node names: only these are fused; empty: all
  std::vector<std::string> apart = {};  ///< likewise: these are not fused with anything
  size_t maxNodes = 64;                 ///< of one group, views not counted
  size_t maxInputs = 48;                ///< tensors that one group reads and writes
  Prices prices = {};
  /// Whether a group may begin with a matrix product of halves: what is behind it becomes part of the product's kernel.
  bool hasProducts = false;
  Steering steering = {};  ///< what people want otherwise
};

/// One pair that was looked at, in the order of the decisions.
struct FusionDecision {
  std::string producer, consumer;  ///< the nodes between which the value passes; of siblings the first and the second
  std::string value;
  bool isLegal = false, isMerged = false;
  bool isAsked = false;            ///< merged because a steering wants it
  bool areSiblings = false;        ///< both read the value, and neither makes it
  std::string why;                 ///< why it is not legal, or not merged; empty where it is merged
  double apart = 0, together = 0;  ///< predicted microseconds
  double measured = 0;             ///< microseconds of both as they are now; 0: nobody measured
};

struct FusionGroup {
  std::string name;               ///< of its operators: "add_gelu_mul"
  std::vector<NodeId> nodes;      ///< in order; views that others read too are among them, and stay in the graph
  std::vector<NodeId> computing;  ///< those of them that are no views
  NodeId product;                 ///< the matrix product whose kernel computes the others too; invalid where none is
  std::vector<ValueId> inputs;    ///< tensors, then numbers, in the order of their first use
  std::vector<ValueId> outputs;
  size_t bytes = 0;              ///< that its kernel reads and writes
  size_t bytesWritten = 0;       ///< of these
  size_t bytesApart = 0;         ///< that its operators read and write one by one
  double microseconds = 0;       ///< that its kernel takes, predicted
  double savedMicroseconds = 0;  ///< predicted
  KernelChoice choice;           ///< what the steering says of its kernel
  std::string choiceEntry;       ///< where it says so: "kernels[0]"
};

/// A node that no kernel is generated for.
struct NotFused {
  std::string node, op, why;
};

struct FusionPlan {
  std::vector<FusionGroup> groups;  ///< in the order of their last nodes
  std::vector<FusionDecision> decisions;
  std::vector<NotFused> notFused;
  std::vector<SteeringProblem> unapplied;  ///< what the steering wants and cannot have
};
/// Whether the model's tensors lie on a GPU, as far as their types say.
bool isOnGpu(const Graph&);
/// Whether an operator that kernels are generated for reads the value, through views at most, so that one kernel may
/// compute both: not a matrix product, nor what reads elements more than once.
bool feedsKernel(const Graph&, ValueId);
/// For kernels of a GPU: its prices, and matrix products.
void planForGpu(FusionOptions&);

FusionPlan planFusion(const Graph&, const FusionOptions& = {});

/// What makes planFusion() give this plan's groups again, and no others: where a person begins to change them.
Steering steeringFor(const Graph&, const FusionPlan&);

/// The group as a graph of its own, for groupText() and lowering: weights are inputs like all others.
Graph groupGraph(const Graph&, const FusionGroup&);

}  // namespace graft
