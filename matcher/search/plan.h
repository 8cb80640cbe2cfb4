// Plan: a rule's pattern made ready to search one graph: what each pattern node accepts, which must be there, where to
// start, and how to walk from a bound value along its uses to the next root. It refers to the rule and the index.
//
//   const Plan plan(rule, index);
//   for (ValueId start : plan.startingPoints(false)) …
#pragma once

#include <re2/re2.h>
#include <memory>
#include <string>
#include <vector>

#include "matcher/rule/pattern.h"
#include "matcher/search/graph_index.h"

namespace graft {

struct PlanNode {
  enum class Kind {
    Operator,      ///< one operator of the graph
    AnyOf,         ///< one of its arguments stands for it
    CallModule,    ///< a whole module call
    CallFunction,  ///< an operator whose name an expression matches
    Meaning,       ///< an integer or list calculated from shapes: compared by meaning, not by node
    Ignored,       ///< no returned value depends on it
  };
  Kind kind = Kind::Ignored;
  NodeId id;
  uint32_t op = GraphIndex::none;          ///< of the index; none where the graph has no such operator
  uint32_t reciprocal = GraphIndex::none;  ///< mul for div and div for mul, where x / 8 may be x * 0.125
  uint32_t functional = GraphIndex::none;  ///< mul for mul_: an import makes functions of writes that nobody can see
  bool isDivision = false;
  bool commutative = false;
  bool reshapes = false;            ///< any reshape may stand for it
  bool required = false;            ///< part of every match, not of an alternative
  std::shared_ptr<RE2> name, path;  ///< CallModule, CallFunction
  std::string type;                 ///< CallModule
  int expression = -1;              ///< Meaning: into Rule::patternExpressions; -1: integer operators of the pattern
  mutable const Operator* asked = nullptr;  ///< the operator that Plan::irrelevant was asked of last,
  mutable uint64_t irrelevant = 0;          ///< and its answer
};

class Plan {
 public:
  Plan(const Rule& rule, const GraphIndex& index);

  const Rule& rule;
  const Graph& pattern;
  const GraphIndex& index;
  std::vector<PlanNode> nodes;    ///< by the pattern's NodeId
  std::vector<ValueId> roots;     ///< returned values that nodes compute, each once
  std::vector<uint8_t> returned;  ///< by the pattern's ValueId
  std::vector<int> parameterOf;   ///< by the pattern's ValueId: into Rule::parameters, or -1
  std::vector<ValueId> read;      ///< the pattern's inputs that the replacement may read; none without one
  std::shared_ptr<RE2> scope;     ///< null: anywhere
  size_t requiredCount = 0;
  bool findsAllReshapes = false;   ///< a view of the pattern is a reshape of the graph
  std::vector<uint32_t> reshapes;  ///< operators of the index that are reshapes, if so
  mutable uint64_t looked = 0;     ///< see SearchResult::looked
  std::string problem;             ///< not empty: the rule cannot be searched for, and why

  /// Whether the graph's node may stand for the pattern's, by operator alone.
  bool accepts(const PlanNode& p, NodeId graphNode) const;
  /// Bit k: parameter k of the operator (below 64) says nothing about what it computes, and is not compared.
  uint64_t irrelevant(const PlanNode& p, const Operator& op) const;
  /// Whether the module call is one that a CallModule node asks for.
  bool accepts(const PlanNode& p, const ModuleCall& call) const;
  /// f of any_of(f(x), x): where it is absent, what it is applied to stands for it. Asked when explaining.
  bool mayBeAbsent(NodeId patternNode) const;
  /// f(op) for the operators of the index that may stand for an Operator node.
  template <class F>
  void forEachOperator(const PlanNode& p, F&& f) const {
    if (p.reshapes) {
      for (uint32_t op : reshapes) f(op);
    } else {
      f(p.op);
      if (p.reciprocal != p.op) f(p.reciprocal);
      if (p.functional != p.op) f(p.functional);
    }
  }
  /// The pattern node that computes the value; null for parameters.
  const PlanNode* producer(ValueId v) const;
  /// By the pattern's ValueId: whether the value takes part in computing `root`.
  const std::vector<uint8_t>& ancestorsOf(ValueId root) const;
  /// Graph values that may be `root` when the pattern's `from` is the graph's `start`: every way up through users that
  /// fit by operator, each once, added to `out`. `loose` lets one node on the way be any operator.
  void followUses(ValueId from, ValueId start, ValueId root, bool loose, std::vector<ValueId>& out) const;
  /// Every graph value that the pattern node's output of that number may be, by operator alone.
  std::vector<ValueId> valuesOf(const PlanNode& p, size_t output) const;
  /// Graph values where the first root may be, in topological order. `loose` finds more, for explanations.
  std::vector<ValueId> startingPoints(bool loose) const;
  /// The values that leave the module call: used outside or returned, in order. Where one node computes all of them,
  /// all of its results.
  std::vector<ValueId> outputsOf(ModuleCallId call) const;
  /// What the module call is given: its recorded inputs, or the values that flow in, in order of use.
  std::vector<ValueId> inputsOf(ModuleCallId call) const;

 private:
  void compile(NodeId id);
  void findRequired();
  struct UseWalk {
    ValueId pattern, graph;
    bool excused;
  };
  mutable std::vector<UseWalk> walk_;                    // of followUses(), kept for its memory
  mutable std::vector<uint8_t> absent_;                  // by pattern node, filled when asked
  mutable std::vector<std::vector<uint8_t>> ancestors_;  // by root value, filled when asked
  mutable std::vector<signed char> functionMemo_;        // by pattern node * operators: CallFunction answers
};

}  // namespace graft
