// Soundness: whether putting the rule's replacement in the place of an assignment leaves the rest of the model as it
// is. Nothing inside is seen from outside, no cycle results, no read moves across a write, and no random operator
// changes its place in the order. It owns nothing: readers of sizes that go with the match are covered in the state,
// what is unsound is reported to the explainer.
//
//   if (soundness.nothingEscapes() && soundness.keepsOrder() && soundness.keepsMemory()) …
#pragma once

#include "matcher/search/explainer.h"
#include "matcher/search/state.h"

namespace graft {

class Soundness {
 public:
  Soundness(MatchState& state, Explainer& explainer)
      : state_(state),
        explainer_(explainer),
        plan_(state.plan),
        index_(state.index),
        graph_(state.graph),
        pattern_(state.pattern) {}

  /// Only the values that the pattern returns are used outside.
  bool nothingEscapes();
  /// No cycle results, and random operators are called in the order in which they were.
  bool keepsOrder();
  /// Nothing that the match reads or makes is written while it runs, nothing that it writes is seen outside, and what
  /// it returns shares no memory with something that is written to.
  bool keepsMemory();

 private:
  void coverReaders(ValueId v);
  ValueId handedOn(ValueId returned) const;
  bool checkHandedOn(ValueId returned, uint32_t first);
  bool checkCopies(uint32_t first);

  MatchState& state_;
  Explainer& explainer_;
  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Graph& pattern_;
};

}  // namespace graft
