// BacktrackingSearch: looks for one occurrence of a pattern. It pairs values of the pattern with values of the graph
// from a root down, tries every order of commutative operands and every alternative, and undoes what a branch bound
// when it fails. It owns the parts of the work: the state (what is bound), the explainer (what did not fit), the
// unifier (arguments against arguments), the forms (orders of operands), the conditions (asked of a complete
// assignment) and the lookup of further roots. It refers to the plan, to what earlier matches cover, and to the budget.
//
//   BacktrackingSearch search(plan, taken, budget);
//   if (search.run(start)) matches.push_back(search.match());
//   else if (auto partial = search.explain(start)) …
#pragma once

#include <memory>
#include <optional>

#include "matcher/search/candidates.h"
#include "matcher/search/conditions.h"
#include "matcher/search/explainer.h"
#include "matcher/search/operand_forms.h"
#include "matcher/search/search.h"
#include "matcher/search/state.h"
#include "matcher/search/unifier.h"

namespace graft {

/// How many steps a search may take, in all and from one anchor.
struct Budget {
  uint64_t total = 0, used = 0;
  uint64_t anchorLimit = 0, anchorUsed = 0;
  bool exceeded = false;
  bool spend() {
    ++used;
    if (++anchorUsed <= anchorLimit && used <= total) return true;
    exceeded = true;
    return false;
  }
};

class BacktrackingSearch {
 public:
  /// `taken` marks the graph nodes that earlier matches cover, by node.
  BacktrackingSearch(const Plan& plan, const std::vector<uint8_t>& taken, Budget& budget);

  /// Searches for a match whose first root is `start`.
  bool run(ValueId start);
  /// The match that run() found.
  Match match() const;
  /// The branch that came furthest with one mismatch forgiven; nothing where not even one node fits.
  std::optional<PartialMatch> explain(ValueId start);

 private:
  // The goals from that number on; each function below ends by solving the rest.
  bool solve(size_t goal);
  bool matchGoal(size_t goal);
  bool matchAnyOf(size_t goal);
  bool matchNode(size_t goal);
  bool matchModule(size_t goal);
  bool finish(size_t goal);
  bool matchRoot(size_t goal, ValueId root);
  bool matchRootAt(size_t goal, ValueId root, ValueId candidate);

  /// The pattern value is bound already: whether this is the same argument.
  bool matchBound(size_t goal);
  /// The whole module call stands for the pattern's node; `g` computes its first matched output.
  bool enterModule(const Node& pn, NodeId g, ModuleCallId call, const std::vector<ValueId>& outputs);
  /// Whether the graph's node may compute the pattern's value, by operator alone.
  bool isAsWanted(const Node& alternatives, const Goal&);
  bool mayBegin(ValueId pattern, NodeId graphNode) const;
  /// Whether what computes `root` fits at the candidate while nothing else is bound. Where it does not, it never does.
  bool fitsAlone(ValueId root, ValueId candidate);

  // Explaining only
  void matchInAnotherForm(const Node& pn, const Node& gn, int forms, size_t goal);
  bool matchOtherwise(size_t goal, NodeId g);
  bool unifyOtherOperator(const Node& pn, const Node& gn, bool swapped);
  bool forgiveOtherModule(const PlanNode& p, NodeId g, ModuleCallId nearest);
  void explainMissingRoot(size_t goal, ValueId root);

  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Graph& pattern_;
  Budget& budget_;
  MatchState state_;
  Explainer explainer_;
  Unifier unifier_;
  OperandForms forms_;
  Conditions conditions_;
  RootLookup roots_;
  ValueId alone_;                              // the only root to match, where one is asked about by itself
  std::unique_ptr<BacktrackingSearch> apart_;  // that asks so
};

}  // namespace graft
