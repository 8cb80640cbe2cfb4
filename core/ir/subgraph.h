// A part of a graph as a graph of its own: the nodes of a match, or their replacement. Values that flow in become
// inputs. Weights come along (their data is shared), and so do values that are computed from weights alone.
//
//   auto part = extractSubgraph(g, match.nodes, {output});
//   run(part->graph, valuesOf(part->inputs));
#pragma once

#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

struct Subgraph {
  Graph graph;                  ///< returns `outputs` in order; its values are named alike for parts built alike
  std::vector<ValueId> inputs;  ///< the outer value of each of the graph's inputs
};

/// `outputs` and what they need of `nodes` and of `also`. Of `nodes` those that write or have side effects are kept
/// even where no output needs them. Inputs come in the order of `inputsFirst` (those given are inputs even where
/// unused), then of use. Control flow is refused.
Result<Subgraph> extractSubgraph(const Graph&, std::vector<NodeId> nodes, const std::vector<ValueId>& outputs,
                                 const std::vector<NodeId>& also = {}, const std::vector<ValueId>& inputsFirst = {});

/// Whether the value is a weight or computed by pure operators from weights and literals alone.
bool dependsOnWeightsAlone(const Graph&, ValueId);

/// Part of the name of a weight from which nothing is calculated beforehand: int8 numbers that are to be scaled when
/// the model runs would otherwise become the large floats again that they were made from. A name is what every format
/// keeps, and what PyTorch hands on.
inline constexpr std::string_view runTimeSuffix = "_at_runtime";
bool staysAtRunTime(const Value& weight);

}  // namespace graft
