// Node: what one node or weight of a graph is, for people who look at it: its operator in words, the Python it came
// from, the weight's numbers.
//
//   NodeDescription d = workbench::describe(node);        // d.doc == "The exponentials along dim, scaled to add up …"
//   Result<NodeSource> s = workbench::sourceOf(graph, node);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/statistics.h"

namespace graft::workbench {

struct NodeDescription {
  std::string op;                    ///< "aten.softmax.int"
  std::string schema;                ///< empty for operators that this machine does not know
  std::string doc;                   ///< what the operator does, in a sentence or two; may be empty
  std::vector<std::string> effects;  ///< "writes to self", "draws random numbers": what rewrites have to respect
};
NodeDescription describe(const Node&);

/// What an operator does: PyTorch's from resources/operators.txt, which is part of the program, graft::'s from the
/// operator library itself. `name` is as in Operator::name, with or without overload; in-place operators are found by
/// the name without their "_". Empty where nothing is known.
std::string operatorDoc(std::string_view name);

/// The Python around the line that a node comes from.
struct NodeSource {
  std::string file;
  int line = 0;   ///< the node's, from 1
  int first = 0;  ///< the number of lines[0]
  std::vector<std::string> lines;
  bool isFile = false;  ///< the file lies on this machine; otherwise only the model's own copy of the line is known
};
/// BadInput where the model does not say where the node comes from, or neither the file nor a copy is there.
Result<NodeSource> sourceOf(const Graph&, const Node&);

struct WeightReport {
  std::string type;  ///< "f32[64,64]@cpu"
  WeightStatistics statistics;
};
Result<WeightReport> weightNamed(const Graph&, const std::string& name);

}  // namespace graft::workbench
