// Search: where a pattern occurs in a graph. Never changes the graph. One backtracking search serves matching and
// explaining: it emits an event for each attempt, and near misses are ranked from those.
//
//   Matcher m(graph);                          // indexes the graph once: nodes by operator, module calls by type
//   SearchResult r = m.findAll(rule);
//   for (const Match& match : r.matches) …
#pragma once

#include <cstdint>
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

/// Why an attempt ended where it did.
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
  bool complete = false;          ///< everything else fits: this one thing is all that is wrong
  NodeId at;                      ///< the graph node where it stopped
  NodeId patternNode;             ///< the pattern node it should have been
  NodeId anchor;
  Reason reason = Reason::Operator;
  std::string parameter;         ///< of the operator, where one argument differs
  std::string expected, actual;  ///< in the words of the rule and of the graph
  std::string message;           ///< one sentence: "dim is 1, the rule wants -1"
  bool tooMany = false;          ///< `at` is an operator that the pattern has none for
  std::string suggestion;        ///< an edit of the rule in words; empty where there is none
  std::vector<TextEdit> edits;   ///< that make it match here; found by Healer (matcher/lang/fix_it.h)
  int line = 0;                  ///< of the rule file
  std::string scope;
  std::vector<NodeId> matchedPattern, matchedNodes;  ///< how far it came, pairwise
};

struct SearchOptions {
  uint64_t stepBudget = 1'000'000;  ///< attempts of one pattern node at one graph node, for each anchor 20,000 at most
  bool explain = false;             ///< collect near misses
  size_t nearMisses = 20;
  NodeId at;  ///< only this anchor, or only attempts that touch this node
};

struct SearchResult {
  std::vector<Match> matches;        ///< disjoint, in topological order of their anchors
  std::vector<NearMiss> nearMisses;  ///< furthest first; only with explain
  uint64_t steps = 0;
  uint64_t looked = 0;          ///< values and users that were passed to find places to begin at, which cost no step
  bool budgetExceeded = false;  ///< some places were not searched to the end: "no match" is not proven
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
