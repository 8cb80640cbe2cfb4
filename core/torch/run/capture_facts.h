// What a graph does that a CUDA graph of it must know: whether it may run as one at all, and what it writes. Private to
// core/torch.
//
//   const CaptureFacts facts = captureFacts(graph);
//   if (!facts.obstacle.empty()) ...             // runs operator by operator, and the obstacle says why
//   facts.writtenWeights                          // its buffers: a KV cache, running statistics
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

struct CaptureFacts {
  /// Empty where replaying a captured run does what running does. Otherwise the node that forbids it, why, and what to
  /// do about it.
  std::string obstacle;
  /// Nodes where the CPU waits for what a GPU computes: they read a number out of a tensor, or the size of their result
  /// depends on its elements. Where the tensor lies on a GPU, the graph cannot be captured as a whole. Whether it does
  /// is known when the model runs. Empty, or a sentence that names the first such node.
  std::string waits;
  /// Weights and inputs that some node may write, through views too: the latter as places in Graph::inputs().
  std::vector<ValueId> writtenWeights;
  std::vector<size_t> writtenInputs;
  /// Of a program: the tensors of writtenWeights, which are its own. Each run begins with what the one before left.
  TensorSet writtenTensors;
  std::vector<std::string> writtenNames;  ///< their paths in the model
  /// All weights and biases of graft:: operators are weights of the graph that no node writes.
  bool constantWeights = true;

  bool writes() const { return !writtenWeights.empty() || !writtenInputs.empty(); }
};
CaptureFacts captureFacts(const Graph&);

/// How a graph that waits for the GPU runs as several CUDA graphs: which of its nodes run between them.
struct CapturePieces {
  std::vector<bool> apart;  ///< by node: it waits, or some node in its blocks does; or it shares a list that is written
  std::vector<bool> work;   ///< by node: it launches kernels, as far as its operator says
};
/// `facts`: of this graph. Nothing where it has no node that waits, where there is an obstacle, or where a node writes
/// to a tensor: what a piece returns is a copy, so that writes would not be seen through views of it.
std::optional<CapturePieces> capturePieces(const Graph&, const CaptureFacts& facts);

}  // namespace graft
