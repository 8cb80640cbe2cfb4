// OperandForms: the ways in which the operands of a pattern's node can stand for those of a graph's node. As they are
// written; the first two exchanged, where the operator is commutative; by the reciprocal, where x / 8 is found as
// x * 0.125; by shape, where one reshape is found as another. It owns nothing.
//
//   if (forms.formsOf(planNode, patternNode, graphNode) & OperandForms::Swapped)
//     if (forms.unify(patternNode, graphNode, OperandForms::Swapped)) …
#pragma once

#include "matcher/search/unifier.h"

namespace graft {

class OperandForms {
 public:
  enum Form : int { Direct = 1, Swapped = 2, Reciprocal = 4, ReciprocalSwapped = 8, Reshaped = 16 };

  OperandForms(MatchState& state, Explainer& explainer, Unifier& unifier)
      : state_(state),
        explainer_(explainer),
        unifier_(unifier),
        plan_(state.plan),
        index_(state.index),
        graph_(state.graph) {}

  /// The forms worth trying, as bits.
  int formsOf(const PlanNode& p, const Node& pn, const Node& gn) const;
  /// Unifies all arguments of the two nodes, laid on each other in that form.
  bool unify(const Node& pn, const Node& gn, Form form);

 private:
  bool plausible(const Argument& p, const Argument& g) const;
  bool unifyArguments(const Node& pn, const Node& gn, bool swapped);
  bool unifyReciprocal(const Node& pn, const Node& gn, Form form);
  bool keepsDType(const Node& pn, const Node& gn);
  bool unifyReshape(const Node& pn, const Node& gn);

  MatchState& state_;
  Explainer& explainer_;
  Unifier& unifier_;
  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
};

}  // namespace graft
