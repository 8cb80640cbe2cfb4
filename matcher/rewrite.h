// Rewriting: the only code that changes a graph after import. Every change leaves a record; diff view, undo and reports
// are built from records.
//
//   Rewriter rewriter(graph, semantics);
//   Result<Record> r = rewriter.apply(rule, match);
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "matcher/search.h"

namespace graft {

/// One rewrite: names, not only ids, so that it can be read beside two snapshots.
struct Record {
  std::string rule;  ///< rule or pass
  std::string scope;
  std::vector<NodeId> removed, added;
  std::vector<std::string> removedNames, addedNames;
  /// value names before → after, for what flowed in and out of the match
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  std::vector<std::string> newWeights;
  bool changesNumbers = false;
};

class Rewriter {
 public:
  Rewriter(Graph& graph, const Semantics& semantics) : graph_(graph), semantics_(semantics) {}
  /// Puts the rule's replacement in the match's place: checks that no cycle, moved read or reordered random operator
  /// results, infers the new types. On an error the graph is as it was. All
  /// matches of one search may be applied one after the other: what earlier ones replaced is looked up.
  Result<Record> apply(const Rule& rule, Match match);

  /// Whether the latest rewrite left some value with fewer users than before: other matches may have become possible.
  bool loosened() const { return loosened_; }

 private:
  void bringUpToDate(Argument& a) const;
  Status findLate(const std::vector<std::pair<ValueId, ValueId>>& outputs, const Match& match,
                  const std::vector<NodeId>& added, std::vector<NodeId>& late) const;
  void takeOut(const std::vector<NodeId>& nodes, Record& record);

  Graph& graph_;
  const Semantics& semantics_;
  bool loosened_ = false;
  std::vector<ValueId> operands_;                   // of the nodes that the latest rewrite took out
  std::unordered_map<ValueId, ValueId> forwarded_;  // results that earlier rewrites replaced
};

/// Matches until nothing new matches (a rule whose replacement contains its own pattern is applied once per place).
struct RuleRun {
  std::vector<Record> records;
  std::vector<std::string> refused;  ///< why a match was not rewritten
  bool budgetExceeded = false;
};
Result<RuleRun> applyRule(Graph& graph, const Rule& rule, const Semantics& semantics);

}  // namespace graft
