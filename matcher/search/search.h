// Search: where a pattern occurs in a graph, and where it almost does. It never changes the graph. One backtracking
// search serves both: to explain, it forgives one mismatch and reports how far the pattern came.
//
// The folder, from the graph up: graph_index.h (what is asked of a graph over and over), reshapes.h (which operators
// only give a tensor another shape), plan.h (a rule made ready for one graph), state.h, unifier.h, operand_forms.h,
// conditions.h, soundness.h, explainer.h, candidates.h and backtracking_search.h (one occurrence), near_miss.h (a
// sentence for a person). Other folders include this header; matcher/rewrite and matcher/passes graph_index.h and
// reshapes.h too. Everything else is the search's own.
//
//   Matcher m(graph);                          // indexes the graph once: nodes by operator, module calls by type
//   SearchResult r = m.findAll(rule);
//   for (const Match& match : r.matches) …
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "matcher/rule/pattern.h"

namespace graft {

struct Match {
  /// pattern value → what it bound: a value of the graph or a literal. Indexed by the pattern's ValueId.
  std::vector<Argument> bindings;
  /// pattern node → graph node (none for pattern-only nodes). Indexed by the pattern's NodeId.
  std::vector<NodeId> nodeOf;
  std::vector<ModuleCallId> moduleOf;  ///< for pattern.call_module nodes
  std::vector<NodeId> nodes;           ///< all graph nodes it covers, in graph order
  NodeId anchor;                       ///< the graph node of the pattern's first returned value
  std::string scope;                   ///< path of the innermost module call that holds all nodes
};

/// Why a branch of the search ended where it did.
enum class Reason {
  Operator,
  Literal,
  Operand,
  DType,
  Rank,
  ModuleType,
  ModuleName,
  Arity,
  Escapes,
  Overlap,
  Scope,
  Where,
  Alias,
  Cycle,
  Random,
  Weight,
  ConstantKind,
  Missing,
  Region,
  Budget,
};
std::string_view reasonName(Reason);

/// `before`, which stands at these bytes of the rule file, is to become `after`.
struct TextEdit {
  size_t begin = 0, end = 0;
  int line = 0;  ///< from 1
  std::string before, after;
};

struct NearMiss {
  size_t matched = 0, total = 0;  ///< pattern nodes
  bool complete = false;          ///< everything else fits: this is the only mismatch
  NodeId at;                      ///< the graph node where the search stopped
  NodeId patternNode;             ///< the pattern node that the graph node should have been
  NodeId anchor;
  Reason reason = Reason::Operator;
  std::string parameter;         ///< the operator's parameter, where one argument differs
  std::string expected, actual;  ///< in the words of the rule and of the graph
  std::string message;           ///< one sentence: "dim is 1, but the rule wants -1"
  bool tooMany = false;          ///< `at` is an operator that the pattern does not have
  std::string suggestion;        ///< an edit of the rule in words; empty where there is none
  std::vector<TextEdit> edits;   ///< that make it match here; found by FixIts (matcher/lang/fix_it.h)
  int line = 0;                  ///< of the rule file
  std::string scope;
  std::vector<NodeId> matchedPattern, matchedNodes;  ///< what did match, pairwise
};

struct SearchOptions {
  uint64_t stepBudget = 1'000'000;  ///< goals tried, in all; 20,000 at most for each anchor
  bool explain = false;             ///< collect near misses
  size_t nearMisses = 20;
  NodeId at;  ///< only matches and near misses that are anchored at this node or touch it
  std::function<bool(const Match&)> passOver = {};  ///< matches that do not count: their nodes are free for others
};

struct SearchResult {
  std::vector<Match> matches;        ///< disjoint, in topological order of their anchors
  std::vector<NearMiss> nearMisses;  ///< furthest first; only with explain
  uint64_t steps = 0;
  uint64_t looked = 0;          ///< values and users that were passed to find places to begin at; they cost no step
  bool budgetExceeded = false;  ///< some places were not searched to the end: there may be more matches
  std::string problem;          ///< not empty: the rule cannot be searched for (a bad expression), and why
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph);
  ~Matcher();
  SearchResult findAll(const Rule& rule, const SearchOptions& = {}) const;

 private:
  struct Index;
  const Graph& graph_;
  std::unique_ptr<Index> index_;
};

}  // namespace graft
