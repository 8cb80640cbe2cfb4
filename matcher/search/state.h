// MatchState: what one branch of the search has found so far, and how to go back. It owns the bindings of the pattern's
// values, the graph nodes that stand for the pattern's nodes, the goals that are still open, and the trail by which
// undo() takes all of it back. It refers to the plan and to the nodes that earlier matches cover.
//
//   const MatchState::Mark before = state.mark();
//   state.bind(patternValue, argument);
//   if (!fits) state.undo(before);
#pragma once

#include <cassert>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "matcher/search/plan.h"
#include "matcher/search/search.h"

namespace graft {

/// The argument that is being compared.
struct Site {
  NodeId patternNode, graphNode;
  int parameter = -1;       ///< index into the graph node's arguments; -1: its shape, or none
  bool reciprocal = false;  ///< the graph's number was inverted: equal up to rounding
};

/// A value of the pattern that has to be found in this argument of the graph.
struct Goal {
  ValueId pattern;
  const Argument* graph;
  Site site;
};

/// One difference between the pattern and the graph, in the words of the rule and of the graph.
struct Mismatch {
  Reason reason = Reason::Operator;
  NodeId patternNode, at;
  std::string parameter, expected, actual;
  std::string detail;          ///< a sentence where expected and actual do not say it
  bool mapped = false;         ///< the pattern node has found its graph node; something else about it differs
  bool guess = false;          ///< worth reporting only if everything else then fits
  bool partial = false;        ///< some operands were not compared: the graph's operator takes fewer of them
  bool extraOperator = false;  ///< `at` is an operator that the pattern does not have
};

class MatchState {
 public:
  struct Mark {
    size_t trail, goals, made;
  };

  /// `taken` marks the graph nodes that earlier matches cover, by node.
  MatchState(const Plan& p, const std::vector<uint8_t>& taken)
      : plan(p),
        index(p.index),
        graph(p.index.graph),
        pattern(p.pattern),
        taken_(taken),
        bound_(p.pattern.valueBound(), nullptr),
        nodeAt_(p.pattern.nodeBound()),
        moduleAt_(p.pattern.nodeBound()),
        covered_(p.index.graph.nodeBound(), 0) {}

  const Plan& plan;
  const GraphIndex& index;
  const Graph& graph;
  const Graph& pattern;

  /// Forgets everything: a new branch, whose first root is `start`.
  void restart(ValueId start) {
    undo({0, 0, 0});
    assert(coveredNodes_.empty() && deferred_.empty() && !forgiven_);
    start_ = start;
  }

  // Reading
  // ---------------------------------------------------------------------------------------------------------------
  ValueId start() const { return start_; }
  /// The graph node that computes the start.
  NodeId anchor() const { return graph.value(start_).producer; }
  /// What the pattern's value stands for; null where nothing is known yet.
  const Argument* bound(ValueId v) const { return bound_[v.index]; }
  /// By the pattern's ValueId.
  const std::vector<const Argument*>& bindings() const { return bound_; }
  /// By the pattern's NodeId: none where it has no graph node.
  const std::vector<NodeId>& nodeOf() const { return nodeAt_; }
  const std::vector<ModuleCallId>& moduleOf() const { return moduleAt_; }
  /// Part of this branch.
  bool isCovered(NodeId n) const { return covered_[n.index] != 0; }
  /// Part of an earlier match.
  bool isTaken(NodeId n) const { return taken_[n.index] != 0; }
  const std::vector<uint8_t>& taken() const { return taken_; }
  const std::vector<NodeId>& coveredNodes() const { return coveredNodes_; }
  size_t goalCount() const { return goals_.size(); }
  const Goal& goal(size_t i) const { return goals_[i]; }
  const std::vector<Goal>& deferred() const { return deferred_; }
  /// The mismatch that this branch goes on in spite of; null where there is none.
  const Mismatch* forgiven() const { return forgiven_ ? &*forgiven_ : nullptr; }
  /// The bindings by name, for expressions. Valid until the next call.
  const Environment& environment() const;

  // Changing: undo() takes back all of these
  // ---------------------------------------------------------------------------------------------------------------
  void bind(ValueId v, const Argument* a) {
    assert(a);
    bound_[v.index] = a;
    trail_.push_back({Undo::Binding, v.index});
  }
  /// Another argument for a value that this branch has bound.
  void rebind(ValueId v, const Argument* a) {
    assert(a && bound_[v.index]);
    bound_[v.index] = a;
  }
  /// The pattern node stands for the graph node, which it covers.
  void map(NodeId p, NodeId g) {
    nodeAt_[p.index] = g;
    trail_.push_back({Undo::Node, p.index});
    if (!covered_[g.index]) cover(g);
  }
  void mapModule(NodeId p, NodeId g, ModuleCallId call) {
    map(p, g);
    moduleAt_[p.index] = call;
  }
  /// False where it was covered already.
  bool cover(NodeId g) {
    if (covered_[g.index]) return false;
    covered_[g.index] = 1;
    coveredNodes_.push_back(g);
    trail_.push_back({Undo::Cover, g.index});
    return true;
  }
  void addGoal(Goal g) { goals_.push_back(g); }
  /// The goal is compared when everything else is bound.
  void defer(const Goal& g) {
    deferred_.push_back(g);
    trail_.push_back({Undo::Deferred, 0});
  }
  void forgive(Mismatch m) {
    assert(!forgiven_);
    forgiven_ = std::move(m);
    trail_.push_back({Undo::Forgiven, 0});
  }
  void markForgivenPartial() {
    assert(forgiven_);
    forgiven_->partial = true;
  }
  /// Keeps an argument that no graph holds: an inverted number, a float for an integer, a value by itself.
  const Argument* make(Argument a) {
    if (madeCount_ == made_.size())
      made_.push_back(std::move(a));
    else
      made_[madeCount_] = std::move(a);
    return &made_[madeCount_++];
  }
  /// Lets the goal look at another argument. The caller puts the old one back: undo() does not know of it.
  void redirectGoal(size_t i, const Argument* graphArgument) { goals_[i].graph = graphArgument; }

  Mark mark() const { return {trail_.size(), goals_.size(), madeCount_}; }
  void undo(const Mark& m);

 private:
  struct Undo {
    enum Kind : uint8_t { Binding, Node, Cover, Deferred, Forgiven } kind;
    uint32_t index;
  };

  const std::vector<uint8_t>& taken_;
  ValueId start_;
  std::vector<const Argument*> bound_;  // by pattern value
  std::vector<NodeId> nodeAt_;          // by pattern node
  std::vector<ModuleCallId> moduleAt_;  // by pattern node
  std::vector<uint8_t> covered_;        // by graph node
  std::vector<NodeId> coveredNodes_;
  std::vector<Goal> goals_, deferred_;
  std::vector<Undo> trail_;
  std::optional<Mismatch> forgiven_;
  std::deque<Argument> made_;  // keeps its memory: so many of them as madeCount_ says are in use
  size_t madeCount_ = 0;
  mutable Environment environment_;
};

inline void MatchState::undo(const Mark& m) {
  assert(m.trail <= trail_.size() && m.goals <= goals_.size() && m.made <= madeCount_);
  while (trail_.size() > m.trail) {
    const Undo u = trail_.back();
    trail_.pop_back();
    switch (u.kind) {
      case Undo::Binding:
        bound_[u.index] = nullptr;
        break;
      case Undo::Node:
        nodeAt_[u.index] = NodeId();
        moduleAt_[u.index] = ModuleCallId();
        break;
      case Undo::Cover:
        covered_[u.index] = 0;
        coveredNodes_.pop_back();
        break;
      case Undo::Deferred:
        deferred_.pop_back();
        break;
      case Undo::Forgiven:
        forgiven_.reset();
        break;
    }
  }
  goals_.resize(m.goals);
  madeCount_ = m.made;
}

inline const Environment& MatchState::environment() const {
  Environment& env = environment_;
  env.graph = &graph;
  env.names.clear();
  env.modules.clear();
  for (uint32_t v = 0; v < bound_.size(); ++v)
    if (bound_[v]) env.names.emplace_back(pattern.value(ValueId(v)).name, bound_[v]);
  for (uint32_t p = 0; p < moduleAt_.size(); ++p)
    if (moduleAt_[p]) env.modules.emplace(pattern.node(NodeId(p)).name, moduleAt_[p]);
  return env;
}

}  // namespace graft
