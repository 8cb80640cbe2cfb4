// View-to-reshape relaxation: views below a rewrite become reshapes. `view` needs a certain memory layout, and what a
// replacement computes may lie in memory in another way than what it replaces: PyTorch's attention lays its result out
// as the queries are, graft::attention always by length. The numbers are equal, and yet a `permute().view()` further
// down would fail. `reshape` takes either layout, and is the same view wherever one is possible.
//
//   ViewRelaxation views(editor);
//   views.below(before, result);   // after each rewrite; nodes are walked once, however many rewrites there are
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/operator.h"
#include "matcher/rewrite/graph_editor.h"

namespace graft {

class ViewRelaxation {
 public:
  explicit ViewRelaxation(GraphEditor& editor)
      : editor_(editor), graph_(editor.graph()), operators_(editor.semantics().operators()) {}

  /// Turns the views that get to see the layout of a replacement's result into reshapes, but for those through which
  /// memory is written. `before`: the result that was replaced, whose node is still there, `result`: what its users
  /// have now.
  void below(ValueId before, ValueId result);
  /// Whether something below reads memory in a way that a reshape cannot stand for: `as_strided`, a view in another
  /// dtype, a view that is written through, an operator that is not PyTorch's or Graft's, or a block. Of values that
  /// the graph had when this was first asked.
  bool isLayoutFixed(ValueId);

 private:
  bool readsMemory(const Node&);
  void findFixed();
  bool isRowMajor(ValueId);
  bool isWrittenThrough(ValueId);

  GraphEditor& editor_;
  const Graph& graph_;
  const OperatorSet& operators_;
  std::optional<OperatorRef> reshape_;  // looked up when first needed
  std::vector<bool> seen_;              // by ValueId
  std::vector<std::pair<ValueId, bool>> work_;
  std::vector<ValueId> aliases_;
  std::optional<std::vector<bool>> fixed_;  // by ValueId
};

}  // namespace graft
