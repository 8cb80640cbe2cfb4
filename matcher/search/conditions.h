// Conditions: what is asked of a complete assignment before it counts as a match. The pattern's calculated sizes, its
// scope, `where` and unpacking come from the rule; the rest is soundness (soundness.h). It owns nothing: it binds what
// calculated sizes determine in the state, and reports what does not hold to the explainer.
//
//   if (conditions.hold()) …   // every root is bound
#pragma once

#include "matcher/search/explainer.h"
#include "matcher/search/soundness.h"
#include "matcher/search/state.h"
#include "matcher/search/unifier.h"

namespace graft {

class Conditions {
 public:
  Conditions(MatchState& state, Explainer& explainer, Unifier& unifier)
      : state_(state),
        explainer_(explainer),
        unifier_(unifier),
        soundness_(state, explainer),
        plan_(state.plan),
        index_(state.index),
        graph_(state.graph),
        pattern_(state.pattern) {}

  bool hold();

 private:
  void bindFromShape(const Goal& goal);
  void bindBySizes();
  /// Whether what the pattern calculates is what the graph has there.
  bool isSame(const Argument& wanted, const Goal& goal) const;
  bool checkCalculated(const Goal& goal);
  bool checkScope();
  bool checkWhere();
  bool checkUnpacking();
  /// Whether the expression names a value that nothing has bound; `inputs`: an input of the pattern.
  bool namesUnbound(const Expression& e, bool inputs) const;

  MatchState& state_;
  Explainer& explainer_;
  Unifier& unifier_;
  Soundness soundness_;
  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Graph& pattern_;
};

}  // namespace graft
