// Unifier: arguments of the pattern against arguments of the graph, by meaning. Values of the pattern that operators
// compute become goals of the state; parameters are bound, and stay what they were bound to; literals have to be equal
// (dim -1 and dim 2 of three are). It owns nothing: what it finds goes to the state, what differs to the explainer.
//
//   unifier.unify(patternNode.args[0], graphNode.args[0], {patternNode.id, graphNode.id, 0});
#pragma once

#include <string>

#include "matcher/search/explainer.h"
#include "matcher/search/state.h"

namespace graft {

class Unifier {
 public:
  Unifier(MatchState& state, Explainer& explainer)
      : state_(state),
        explainer_(explainer),
        plan_(state.plan),
        index_(state.index),
        graph_(state.graph),
        pattern_(state.pattern) {}

  bool unify(const Argument& p, const Argument& g, const Site& site);
  /// Binds a parameter of the pattern, or compares with what it is bound to.
  bool bindParameter(ValueId pattern, const Argument& g, const Site& site);
  /// Whether a literal of the pattern means what the graph has there.
  bool literalEquals(const Argument& p, const Argument& g, const Site& site) const;
  /// What explanations call the argument: "dim"; empty where it has no name.
  std::string parameterName(const Site& site) const;
  /// Explaining: the lists of this node are read from their end; of none: all lists are read from their beginning.
  void readReversed(NodeId graphNode) { reversed_ = graphNode; }

 private:
  bool isSingle(const Node*) const;
  bool unifyLists(const Argument& p, const Argument& g, const Site& site);
  bool unifyIndices(const std::vector<Argument>& ps, const std::vector<Argument>& gs, const Site& site);
  const Argument* accepted(PatternParameter::Kind kind, bool orNumber, const Argument& g);
  bool compareLiteral(const Argument& p, const Argument& g, const Site& site);
  bool sameValue(const Argument& a, const Argument& b, PatternParameter::Kind kind) const;
  bool checkType(ValueId pattern, ValueId graph, const Site& site);

  MatchState& state_;
  Explainer& explainer_;
  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Graph& pattern_;
  NodeId reversed_;
};

inline bool isMinusOne(const Argument& a) { return a.as<int64_t>() && *a.as<int64_t>() == -1; }

}  // namespace graft
