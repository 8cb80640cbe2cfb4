// What the passes share. Each pass is one file that defines the function of its name; passes.cpp lists them.
#pragma once

#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "matcher/passes/passes.h"

namespace graft {

using Records = Result<std::vector<Record>>;

Records normalize(Graph&, const Semantics&, const Step&);
Records removeDropout(Graph&, const Semantics&, const Step&);
Records foldConstants(Graph&, const Semantics&, const Step&);
Records eliminateCommon(Graph&, const Semantics&, const Step&);
Records eliminateDead(Graph&, const Semantics&, const Step&);
Records decompose(Graph&, const Semantics&, const Step&);
Records half(Graph&, const Semantics&, const Step&);
Records swapModule(Graph&, const Semantics&, const Step&);

/// A record of one node's replacement by a value that is there already; the node is erased.
Record replaceNode(Graph&, NodeId node, ValueId by, std::string_view pass);
/// Every use of the value becomes the literal.
void replaceByLiteral(Graph&, ValueId value, const Argument& literal);
/// The step's argument at that place as the last part of a name: "gelu" for nn.GELU's F.gelu, "GELU" for nn.GELU; ""
/// where absent.
std::string nameArgument(const Step&, size_t index);

/// Adds nodes before one place with inferred types; remembers the first error.
class NodeBuilder {
 public:
  NodeBuilder(Graph& graph, const Semantics& semantics, NodeId before);
  /// Arguments in schema order; defaults fill the rest.
  Argument call(std::string_view op, std::vector<Argument> args);
  const std::optional<Error>& error() const { return error_; }
  const std::vector<NodeId>& added() const { return added_; }
  /// Erases what was added.
  void undo();

 private:
  Graph& graph_;
  const Semantics& semantics_;
  NodeId before_;
  std::vector<NodeId> added_;
  std::optional<Error> error_;
};

}  // namespace graft
