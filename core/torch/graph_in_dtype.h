// A graph as RunOptions::dtype runs it, written out for tools that can only run files.
//
//   auto half = inDType(model.graph, DType::Float16);   // f32[2,384] is f16[2,384] all through half->graph
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

/// A model that computes in the dtype already stays as it is, but for its inputs' types. Else
/// floating weights and inputs have the new dtype. So have operators' arguments that name a dtype; numbers in arguments
/// that the dtype cannot hold are adapted. In half precision, parts of a float32 model stay in float32: what comes from
/// whole numbers and buffers alone, squares that are summed up, an attention's scores from where distances are
/// added, operators without kernels in half precision (core/torch/run/float32_parts.h). Types of intermediate values
/// are inferred again. Where that is impossible (blocks, users' own operators) they follow the arguments; where an
/// operator refuses the dtype they are unknown.
struct GraphInDType {
  Graph graph;
  bool rewroteArguments = false;  ///< false: casting the module's weights and inputs has the same effect
};
/// In half precision, the nodes `inFloat32` stay in float32, too. BadInput where a weight cannot be cast to the dtype.
Result<GraphInDType> inDType(const Graph&, DType, const std::vector<NodeId>& inFloat32 = {});

/// Whether one run on the inputs gives neither NaN nor infinities; true where it fails.
bool givesFiniteOutputs(const Graph&, const TensorSet& inputs, const Job& = {});

struct GraphWithinRange {
  Graph graph;
  std::vector<std::string> nodes;  ///< that stay in float32 for their values' range, in the order of the graph
};
/// inDType for a float32 model whose outputs overflow in the 16-bit dtype, where they are finite in float32. Runs both
/// on the inputs, on the device that these are on, finds where NaN and infinities begin on the way to the outputs, and
/// keeps these nodes in float32, with the nodes that read what the dtype cannot hold; again, until the outputs are
/// finite. Nothing where no choice of nodes helps, or where a run fails.
std::optional<GraphWithinRange> inDTypeWithinRange(const Graph&, DType, const TensorSet& inputs, const Job& = {});

}  // namespace graft
