// Whether a graph may run as a CUDA graph. Private to core/torch.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

struct CaptureFacts {
  /// Empty where replaying a captured run does what running does: no node writes to what outlives a run, none has an
  /// effect outside of tensors. Otherwise the node that forbids it, and why.
  std::string obstacle;
  /// All weights and biases of graft:: operators are weights of the graph, so no kernel of a run writes to them.
  bool constantWeights = true;
};
CaptureFacts captureFacts(const Graph&);

}  // namespace graft
