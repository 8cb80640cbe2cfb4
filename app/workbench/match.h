// Match: where the rules of a file match a graph, and why one does not match where it nearly does. Neither changes it.
//
//   const workbench::MatchReport found = workbench::match(graph, file);
//   found.rules[0].places[0].nodes                                   // {"matmul", "softmax", "matmul_1"}
//   auto why = workbench::explain(graph, rule, text, operators, {.at = "softmax_3"});
//   why->nearMisses[0].edits                                         // the change of the text that makes it match
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/formats/model.h"
#include "matcher/search/search.h"

namespace graft::workbench {

/// Which node of the graph each node of the pattern is, by name.
using NodePairs = std::vector<std::pair<std::string, std::string>>;

struct MatchPlace {
  std::string scope;               ///< path of the innermost module call that holds it
  std::vector<std::string> nodes;  ///< all that the match covers, in the graph's order
  NodePairs map;                   ///< pattern node, graph node
};
struct RuleMatches {
  std::string rule;
  std::vector<MatchPlace> places;
  bool budgetExceeded = false;  ///< the search ran out of steps: there may be more
};
struct MatchReport {
  std::vector<RuleMatches> rules;  ///< in the file's order
  double milliseconds = 0;         ///< of indexing the graph and of all searches
};
/// What matching one model's file found.
struct MatchedModel {
  std::string model;
  const FileFormat* format = nullptr;
  size_t nodes = 0;
  MatchReport report;
};
/// Of all rules of the file, or only of that one.
MatchReport match(const Graph&, const RuleFile&, const std::string& onlyRule = "");

struct NearMissReport {
  size_t matched = 0, total = 0;         ///< pattern nodes
  std::optional<std::string> at;         ///< the node where the match stopped; none where it is gone
  std::optional<std::string> inPattern;  ///< the pattern's node that it should have been
  std::string reason;                    ///< one word: reasonName(Reason)
  std::string parameter;                 ///< of the operator, where one argument differs
  std::string expected, actual;          ///< in the words of the rule and of the graph
  std::string message;                   ///< one sentence: "dim is -1, but the rule wants 1"
  std::string suggestion;                ///< an edit of the rule in words; may be empty
  std::vector<TextEdit> edits;           ///< that make the rule match here; empty where none is known
  int line = 0;                          ///< of the rule file; 0: unknown
  std::string scope;
  NodePairs map;  ///< how far it came
};
struct ExplainRequest {
  std::string at;     ///< only what was tried at this node; "": everywhere
  size_t limit = 20;  ///< how many near misses
  bool edits = true;  ///< look for the edits that make the rule match
};
struct Explanation {
  std::string rule;
  size_t matches = 0;
  bool budgetExceeded = false;
  std::vector<NearMissReport> nearMisses;  ///< furthest first
  std::string nothingNear;                 ///< where there is neither a match nor a near miss: what the graph has
};
/// What explaining one rule on a model's file found.
struct ExplainedModel {
  std::string model;
  Explanation explanation;
};
/// `text` is what the rule was read from (for edits), `file` its name. BadInput where there is no node `at`.
Result<Explanation> explain(const Graph&, const Rule&, std::string_view text, const std::string& file,
                            const OperatorSet&, const ExplainRequest& = {});

}  // namespace graft::workbench
