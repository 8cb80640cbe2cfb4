// A graph as RunOptions::dtype runs it, written out for tools that can only run files.
//
//   auto half = inDType(model.graph, DType::Float16);   // f32[2,384] is f16[2,384] all through half->graph
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// A model that computes in the dtype already stays as it is, but for its inputs' types. Else
/// floating weights and inputs have the new dtype. So have operators' arguments that name a dtype; numbers in arguments
/// that the dtype cannot hold are adapted. In half precision, parts of a float32 model stay in float32: what comes from
/// whole numbers and buffers alone, squares that are summed up, and an attention's scores from where distances are
/// added (core/torch/run/float32_parts.h). Types of intermediate values are inferred again. Where that is impossible
/// (blocks, users' own operators) they follow the arguments; where an operator refuses the dtype they are unknown.
struct GraphInDType {
  Graph graph;
  bool rewroteArguments = false;  ///< false: casting the module's weights and inputs has the same effect
};
/// BadInput where a weight cannot be cast to the dtype.
Result<GraphInDType> inDType(const Graph&, DType);

}  // namespace graft
