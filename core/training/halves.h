// The two graphs that a cut makes of a joint graph. The forward half returns the model's results, then what the
// backward half keeps; that takes these and the tangents, and returns the gradients. Nodes keep names, modules and
// source lines. In the backward half a node that is computed again stands right before the first node that reads it, so
// that it lives no longer than it must.
//
//   auto halves = splitJoint(joint, cut, operators);
//   halves->forward.signature.returns.back()      // Saved, of "convolution"
#pragma once

#include "core/training/cut.h"

namespace graft {

struct Half {
  Graph graph;
  TrainingSignature signature;
};
struct Halves {
  Half forward, backward;
};
/// `operators` must know aten.clone.default: an input that the forward pass overwrites is copied before it is kept.
Result<Halves> splitJoint(const JointGraph&, const Cut&, const OperatorSet& operators);

/// The bytes alive while each node of a half of the joint graph runs, in the half's order: the node's operands and
/// results, and what later nodes or the caller want. Inputs and weights are not counted; views count as what they look
/// into.
struct LiveBytes {
  NodeId node;  ///< of the half
  size_t bytes = 0;
};
std::vector<LiveBytes> liveBytes(const Graph& half, const JointGraph&);
/// The most of them.
size_t mostAlive(const std::vector<LiveBytes>&);

}  // namespace graft
