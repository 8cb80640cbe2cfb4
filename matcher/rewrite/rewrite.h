// Rewriting: the only code that changes a graph after import. Every change leaves a record; diff view, undo and reports
// are built from records.
//
//   Rewriter rewriter(graph, semantics);
//   Result<Record> r = rewriter.apply(rule, match);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/rewrite_check.h"
#include "core/ir/semantics.h"
#include "matcher/search/search.h"

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
  /// Modules of the match that the replacement keeps: path and what the replacement calls it.
  std::vector<std::pair<std::string, std::string>> keptModules;
  bool changesNumbers = false;
  RewriteVerification verification;  ///< of a rule's rewrite, where one was asked for
};

/// A match that stays as it was because its rewrite failed the proof.
struct RolledBack {
  std::string node;  ///< the anchor's name
  std::string scope;
  std::vector<std::string> nodes;
  RewriteVerification verification;
};

/// How rewrites are done.
struct RewriteOptions {
  RewriteCheck* check = nullptr;  ///< asked before each rewrite is made final; null: nobody is
  bool strict = false;            ///< the first rewrite that fails the check is an error
};

struct RuleSides;
class LooseViews;

class Rewriter {
 public:
  Rewriter(Graph& graph, const Semantics& semantics, RewriteCheck* check = nullptr);
  ~Rewriter();
  /// Tells the check, where there is one, which matches are about to be applied.
  void prepare(const std::vector<Match>& matches) const;
  /// Puts the rule's replacement in the match's place: checks that no cycle, moved read or reordered random operator
  /// results, infers the new types, asks the check (an error of kind Verification where it fails). On an error the
  /// graph is as it was. All matches of one search may be applied one after the other: what earlier ones replaced is
  /// looked up.
  Result<Record> apply(const Rule& rule, Match match);
  /// The same into an empty record, of which nothing is of use on an error. The match is brought up to date.
  Status apply(const Rule& rule, Match& match, Record& record);
  /// Of the latest apply() that ended with Verification.
  const RolledBack& rolledBack() const { return rolledBack_; }

  /// Whether the latest rewrite left some value with fewer users than before: other matches may have become possible.
  bool loosened() const { return loosened_; }

 private:
  struct Scratch;
  void bringUpToDate(Argument& a) const;
  void forward(ValueId from, ValueId to);
  Status findLate(const Match& match, const std::vector<NodeId>& added);
  void takeOut(Record& record);

  Graph& graph_;
  const Semantics& semantics_;
  RewriteCheck* check_ = nullptr;
  RolledBack rolledBack_;
  bool loosened_ = false;
  std::unique_ptr<RuleSides> sides_;   // of the rule applied last
  std::vector<ValueId> operands_;      // of the nodes that the latest rewrite took out
  std::vector<ValueId> forwarded_;     // by value: what took the place of results that earlier rewrites replaced
  std::unique_ptr<LooseViews> views_;  // below what was replaced
  std::unique_ptr<Scratch> scratch_;   // lists of one rewrite, kept for their memory
};

/// Matches until nothing new matches (a rule whose replacement contains its own pattern is applied once per place).
struct RuleRun {
  std::vector<Record> records;
  std::vector<std::string> refused;  ///< why a match was not rewritten
  std::vector<RolledBack> rolledBack;
  bool budgetExceeded = false;
};
Result<RuleRun> applyRule(Graph& graph, const Rule& rule, const Semantics& semantics, const RewriteOptions& = {});
/// "`softmax_3` in encoder.layer.0"
std::string placeOf(const RolledBack&);
/// "at `softmax_3` in encoder.layer.0: on random values, …".
std::string toString(const RolledBack&);

}  // namespace graft
