// Rewriting: a rule's replacement in the place of its matches.
//
// The folder: record.h (what a change was, and who hears of it), graph_editor.h (the only code that changes a graph
// after import; rules and passes edit through it), this header (rules), instantiate.h (the replacement's nodes) and
// view_relaxation.h (views below a rewrite). Other folders include this header and record.h; matcher/passes
// graph_editor.h and view_relaxation.h too. The rest is the folder's own.
//
//   Result<RuleRun> run = applyRule(graph, rule, semantics);          // everywhere
//
//   Rewriter rewriter(graph, semantics);                              // at some matches
//   Result<Record> r = rewriter.apply(rule, match);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/rewrite_check.h"
#include "core/ir/semantics.h"
#include "matcher/rewrite/graph_editor.h"
#include "matcher/rewrite/record.h"
#include "matcher/search/search.h"

namespace graft {

/// How rewrites are done.
struct RewriteOptions {
  RewriteCheck* check = nullptr;        ///< asked before each rewrite becomes final; null: rewrites are not verified
  bool strict = false;                  ///< the first rewrite that fails the check is an error
  RewriteListener* listener = nullptr;  ///< hears of each change; null: nobody does
};

struct RuleSides;
class ViewRelaxation;

class Rewriter {
 public:
  Rewriter(Graph& graph, const Semantics& semantics, RewriteCheck* check = nullptr);
  /// The editor keeps the records.
  explicit Rewriter(GraphEditor& editor, RewriteCheck* check = nullptr);
  ~Rewriter();
  /// Tells the check, where there is one, which matches are about to be applied.
  void prepare(const std::vector<Match>& matches) const;
  /// Puts the rule's replacement in the match's place: checks that no cycle, moved read or reordered random operator
  /// results, infers the new types, asks the check (an error of kind Verification where it fails). On an error the
  /// graph is as it was. All matches of one search may be applied one after the other: what earlier ones replaced is
  /// looked up.
  Result<Record> apply(const Rule& rule, Match match);
  /// The same, with the record as the editor's last. The match is brought up to date.
  Status rewrite(const Rule& rule, Match& match);
  /// Of the latest rewrite that ended with Verification.
  const RolledBack& rolledBack() const { return rolledBack_; }

  /// Nodes of the match that the latest rewrite left in place, as parts of modules that its replacement keeps.
  const std::vector<NodeId>& kept() const { return kept_; }
  /// Whether the latest rewrite left some value with fewer users than before: other matches may have become possible.
  bool loosened() const { return loosened_; }

 private:
  struct Scratch;
  void bringUpToDate(Argument& a) const;
  void forward(ValueId from, ValueId to);
  Status findLate(const Match& match, const std::vector<NodeId>& added);
  Status passOnTypes(const Match& match, const std::vector<NodeId>& kept);
  Status replace(const Rule& rule, Match& match);
  void takeOut();

  std::unique_ptr<GraphEditor> own_;  // where none was given
  GraphEditor& editor_;
  const Graph& graph_;
  RewriteCheck* check_ = nullptr;
  RolledBack rolledBack_;
  bool loosened_ = false;
  std::unique_ptr<RuleSides> sides_;       // of the rule applied last
  std::vector<NodeId> kept_;               // by the latest rewrite
  std::vector<ValueId> operands_;          // of the nodes that the latest rewrite took out
  std::vector<ValueId> forwarded_;         // by value: what took the place of results that earlier rewrites replaced
  std::unique_ptr<ViewRelaxation> views_;  // below what was replaced
  std::unique_ptr<Scratch> scratch_;       // lists of one rewrite, kept for their memory
};

/// Matches until nothing new matches. A match that lies wholly in what the rule has made itself counts only where
/// rewriting it leaves fewer nodes: so a rule comes to an end even if its replacement matches its pattern.
struct RuleRun {
  std::vector<Record> records;
  std::vector<std::string> refused;  ///< why a match was not rewritten
  std::vector<RolledBack> rolledBack;
  bool budgetExceeded = false;
};
Result<RuleRun> applyRule(Graph& graph, const Rule& rule, const Semantics& semantics, const RewriteOptions& = {});

}  // namespace graft
