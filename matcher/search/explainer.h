// Explainer: why a pattern does not match at a place. Explaining is the ordinary search with one mismatch forgiven:
// what the search then reaches says how far the pattern came and what stopped it. It owns the branch that came
// furthest; the mismatch that is being forgiven belongs to the state, so that it goes when the branch is undone.
//
//   return explainer.fail(Reason::Literal, patternNode, node, [&](Mismatch& m) { m.expected = "1"; m.actual = "2"; });
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "matcher/search/state.h"

namespace graft {

/// How far one branch came.
struct PartialMatch {
  size_t matched = 0;
  bool complete = false;  ///< everything but the cause fits
  bool isAlike = false;   ///< the cause is one of many operands of its node, and most others fit
  Mismatch cause;
  NodeId anchor;
  std::vector<NodeId> patternNodes, graphNodes;  ///< pairwise
};

class Explainer {
 public:
  explicit Explainer(MatchState& state) : state_(state), plan_(state.plan), graph_(state.graph) {}

  /// Whether mismatches are forgiven and recorded. Off, a mismatch just ends the branch.
  bool isOn() const { return isOn_; }
  void begin() {
    isOn_ = true;
    best_.reset();
  }
  /// The furthest branch since begin(); nothing where not even one node fits.
  std::optional<PartialMatch> end() {
    isOn_ = false;
    return std::move(best_);
  }

  /// Notes a mismatch. True: it is forgiven, and the search goes on as if it fitted. `describe` fills in a Mismatch and
  /// is called only when explaining.
  template <class F>
  bool fail(Reason reason, NodeId patternNode, NodeId at, F&& describe) {
    if (!isOn_) return false;
    Mismatch m;
    m.reason = reason;
    m.patternNode = patternNode;
    m.at = at;
    describe(m);
    return forgive(std::move(m));
  }
  /// The first mismatch of a branch is forgiven; the second ends it.
  bool forgive(Mismatch m);
  /// Keeps the branch if it is the furthest so far. `unfit`: a pattern node that has a graph node but differs from it.
  void record(bool complete, NodeId unfit = {});

  /// "the weight `fc.bias`", "`relu_1`", "-1"
  std::string describe(const Argument& a) const;
  std::string describeValue(ValueId v) const;
  /// The operator that the pattern's node asks for: "aten.relu", or the expression that its name has to match.
  std::string wantedOperator(NodeId patternNode) const;

 private:
  size_t matchedCount() const;
  /// Whether the pattern's node stands for one of its own operator with many operands, of which most fit.
  bool areMostOperandsAlike(NodeId patternNode) const;
  bool isOperandAlike(const Argument& pattern, const Argument& graph) const;

  MatchState& state_;
  const Plan& plan_;
  const Graph& graph_;
  bool isOn_ = false;
  std::optional<PartialMatch> best_;
};

}  // namespace graft
