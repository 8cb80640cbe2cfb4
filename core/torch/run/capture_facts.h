// What a graph allows whoever wants to run it as a CUDA graph. Private to core/torch.
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

struct CaptureFacts {
  /// Empty where replaying a captured run is like running: nothing that outlives a run is written to, nothing happens
  /// outside of tensors. Otherwise the node that forbids it and why.
  std::string obstacle;
  /// What graft:: operators get as weights and biases are weights of the graph, so no kernel of a run writes to them.
  bool constantWeights = true;
};
CaptureFacts captureFacts(const Graph&);

}  // namespace graft
