// Instantiation: the replacement's nodes put into the graph at a match, before anything of the match is taken out. They
// are insertions of the editor's open edit: where one node cannot be made, cancelling the edit takes all of them back.
//
//   Instantiation made(editor, sides, match, block, at);
//   auto returns = made.run();
//   if (!returns) return editor.cancel(), returns.error();
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "matcher/rewrite/graph_editor.h"
#include "matcher/search/search.h"

namespace graft {

/// What each match of a rule asks of the rule's two sides, found once.
struct RuleSides {
  explicit RuleSides(const Rule& rule);  ///< with a replacement
  const Rule* rule;
  std::vector<ValueId> patternInput;  ///< by the replacement's inputs: the pattern's input that each means
  std::vector<uint8_t> isRead;        ///< by the pattern's inputs: the replacement may read it
  std::vector<NodeId> order;          ///< of the replacement's nodes
  std::vector<Argument> returned;     ///< the leaves of what the pattern returns
  std::vector<NodeId> views;          ///< of the pattern; none where the replacement writes to memory
  std::vector<uint8_t> isInitial;     ///< by the replacement's nodes: computes the first value of a new parameter
};

class Instantiation {
 public:
  /// New nodes go before `at`, or to the end of the block where `at` is none.
  Instantiation(GraphEditor& editor, const RuleSides& sides, const Match& match, BlockId block, NodeId at);

  /// Makes every node; the replacement's returned values as arguments of the graph, flattened.
  Result<std::vector<Argument>> run();
  /// Adds module calls for the new nodes that the replacement's nn.Module classes name. The edit cannot be cancelled
  /// after.
  void placeModules();

  std::vector<NodeId> kept;  ///< nodes of matched modules that the replacement keeps in place
  std::vector<std::pair<ModuleCallId, std::string>> keptModules;  ///< with the replacement's name for them

 private:
  Environment environment() const;
  void make(ValueId replacement, Argument a);
  Result<Argument> translate(const Argument& a) const;
  bool isLeftOut(NodeId) const;
  Result<Argument> chooseByRank(const Node&) const;
  Result<Argument> calculate(const Node& n);
  bool isPlain(const Argument& a) const;
  Result<Argument> materialize(const Argument& a);
  Argument sizeNode(ValueId v, int64_t dim);
  Status keepModule(const Node& n);
  Status expandEllipsis(std::vector<Argument>& args) const;
  Status makeNode(const Node& n);
  Status makeParameter(const Node& n);
  Status makeRunTime(const Node& n);
  bool tryEvaluate(NodeId made, const Node& n);
  bool isConstant(ValueId v) const;
  std::string pathBelow(const std::string& name);
  std::string weightPath(const Node& made) const;

  NodeId insert(OperatorRef op, std::vector<Argument> args, std::string_view name = {});

  GraphEditor& editor_;
  const Graph& graph_;
  const Semantics& semantics_;
  const RuleSides& sides_;
  const Rule& rule_;
  const Match& match_;
  const Graph& replacement_;
  BlockId block_;
  NodeId at_;
  ModuleCallId module_;  // that holds the match
  ModuleCallId home_;    // of new modules: the same, or where it is called if the match is the whole of it
  uint32_t source_ = UINT32_MAX;
  bool copies_ = false;  // a view of the pattern stands for a reshape of the graph: so do those of the replacement
  std::vector<std::optional<Argument>> made_;  // by the replacement's ValueId
  std::map<std::pair<ValueId, int64_t>, Argument> sizes_;
  std::vector<std::pair<NodeId, ModuleCallId>> newModules_;  // with the replacement's module
  std::map<std::string, std::string> pathOf_;                // of new modules and weights, by their first name
};

/// The leaves of returned arguments, in order: values and literals, lists and tuples opened.
std::vector<Argument> leavesOf(std::span<const Argument> returns);

}  // namespace graft
