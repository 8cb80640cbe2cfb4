// Views below a rewrite. `view` asks for a memory layout, and what a replacement computes may lie otherwise in memory
// than what it replaces: PyTorch's attention lays its result out as the queries are, graft::attention always by length.
// Equal numbers, and yet a `permute().view()` further down is refused. `reshape` takes either, and is the same view
// wherever one is possible.
//
//   LooseViews views(graph, operators);
//   views.below(before, result);   // after each rewrite; nodes are walked once, however many rewrites there are
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/operator.h"

namespace graft {

class LooseViews {
 public:
  LooseViews(Graph& graph, const OperatorSet& operators) : graph_(graph), operators_(operators) {}

  /// Turns the views that get to see the layout of a replacement's result into reshapes, but for those through which
  /// memory is written. `before`: the result that was replaced, whose node is still there, `result`: what its users
  /// have now.
  void below(ValueId before, ValueId result);

 private:
  bool isRowMajor(ValueId);
  bool isWrittenThrough(ValueId);

  Graph& graph_;
  const OperatorSet& operators_;
  std::optional<OperatorRef> reshape_;  // looked up when first needed
  std::vector<bool> seen_;              // by ValueId
  std::vector<std::pair<ValueId, bool>> work_;
  std::vector<ValueId> aliases_;
};

}  // namespace graft
