// GraphEditor: the only code that changes a graph after import. Rules (through the Rewriter) and passes edit through
// it; they see the graph itself as const. An edit is what lies between begin() and commit(): one Record, which the
// editor keeps and tells the listener. It refers to the graph, the semantics and the listener, and owns the records.
//
//   GraphEditor editor(graph, semantics, "remove_dropout");
//   editor.replaceNode(dropout, input);            // an edit by itself
//
//   editor.begin(node);                            // an edit of several steps
//   NodeBuilder b(editor, node);
//   const Argument sum = b.call("aten.add.Tensor", {x, y});
//   if (b.error()) return editor.cancel(), *b.error();
//   editor.replaceValue(graph.output(node), sum.valueId());
//   editor.erase(node);
//   editor.commit();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "matcher/rewrite/record.h"

namespace graft {

class GraphEditor {
 public:
  /// `name`: the rule or pass that edits, as records call it.
  GraphEditor(Graph& graph, const Semantics& semantics, std::string name = {}, RewriteListener* listener = nullptr)
      : graph_(graph), semantics_(semantics), name_(std::move(name)), listener_(listener) {}

  const Graph& graph() const { return graph_; }
  const Semantics& semantics() const { return semantics_; }
  RewriteListener* listener() const { return listener_; }
  /// Of all edits so far, in order; while an edit is open, the last is that edit's.
  const std::vector<Record>& records() const { return records_; }
  std::vector<Record> takeRecords();
  /// Whom a pass asks before each of its edits becomes final, where it does so itself (Pass::checksEdits); may be null.
  RewriteCheck* check() const { return check_; }
  void setCheck(RewriteCheck* check) { check_ = check; }
  /// An edit that was cancelled because it failed the check.
  void noteRolledBack(RolledBack);
  const std::vector<RolledBack>& rolledBack() const { return rolledBack_; }
  /// Why an edit was cancelled for another reason.
  void noteRefused(std::string why) { refused_.push_back(std::move(why)); }
  const std::vector<std::string>& refused() const { return refused_; }
  void reserveRecords(size_t more) { records_.reserve(records_.size() + more); }

  // Edits
  // -------------------------------------------------------------------------------------------------------------------
  /// Opens an edit at that node, whose scope the record says; of the whole model where there is none.
  Record& begin(NodeId place = {});
  /// Opens an edit of a rule in that scope.
  Record& begin(std::string_view name, std::string_view scope);
  /// The open edit's record, for what the editor does not know: inputs, verification, whether numbers change on
  /// purpose.
  Record& record();
  /// The edit is final: the listener hears of it.
  void commit();
  /// Takes back the nodes and weights that the edit inserted, which is all that it may have done so far. No record
  /// stays.
  void cancel();
  /// An edit by itself: a node's only used result is `by` from now on, and the node goes.
  void replaceNode(NodeId node, ValueId by);

  // Inserting: noted as added
  // -------------------------------------------------------------------------------------------------------------------
  /// Before that node, or at the end of the block where there is none. Types are still to be set.
  NodeId insert(BlockId block, NodeId before, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  /// At the beginning of the block.
  NodeId prepend(BlockId block, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  /// Takes a node back that this edit inserted and nobody uses: only what it computed was wanted.
  void takeBack(NodeId inserted);
  ValueId addOutput(NodeId node, std::string_view name, Type type);
  /// Noted as a new weight.
  ValueId addWeight(std::string_view path, Type type, std::shared_ptr<const WeightData> data, bool isBuffer = true);
  ModuleCallId addModuleCall(ModuleCallId parent, std::string path, std::string type);

  // Replacing and erasing: noted as outputs and removed
  // -------------------------------------------------------------------------------------------------------------------
  /// What used `old` uses `by`, as a result of the edit.
  void replaceValue(ValueId old, ValueId by);
  /// Every use of the value becomes the literal.
  void replaceByLiteral(ValueId value, const Argument& literal);
  /// Nobody may use the node's results any more.
  void erase(NodeId node);
  /// Weights that this edit added and that nobody uses go: they were steps on the way to others.
  void dropUnusedWeights();
  /// Not noted: a weight goes with the last node that reads it.
  void eraseWeight(ValueId weight);
  /// Other data for a weight, of another type; noted as a new weight.
  void setWeight(ValueId weight, const Semantics::Constant& c);
  /// The module call is one of another module of the same library, built as by default: "ReLU".
  void replaceModule(ModuleCallId call, std::string_view shortType);

  // In place
  // -------------------------------------------------------------------------------------------------------------------
  /// Notes that the node was changed in place: removed and added at once.
  void noteChanged(NodeId node);
  void setOperator(NodeId node, OperatorRef op);
  void setArguments(NodeId node, std::vector<Argument> args);
  void setKeywordArguments(NodeId node, std::vector<std::pair<std::string, Argument>> kwargs);
  void setReturns(BlockId block, std::vector<Argument> returns);
  /// What used `from` uses `to`, within the edit: nothing is noted.
  void redirectUses(ValueId from, ValueId to);
  void setType(ValueId value, Type type);
  void setModule(NodeId node, ModuleCallId module);
  /// The call, with all below it, becomes one that `parent` makes. sortModuleCalls() is due when all is moved.
  void moveModuleCall(ModuleCallId call, ModuleCallId parent);
  /// Between edits: calls get the ids that they would have if the model had been read so, parents before children.
  void sortModuleCalls();
  void setSource(NodeId node, uint32_t source);
  void setOrigin(NodeId node, std::shared_ptr<const Origin> origin);
  void moveBefore(NodeId node, NodeId at);
  void moveAfter(NodeId node, NodeId at);

 private:
  Graph& graph_;
  const Semantics& semantics_;
  std::string name_;
  RewriteListener* listener_;
  std::vector<Record> records_;
  RewriteCheck* check_ = nullptr;
  std::vector<RolledBack> rolledBack_;
  std::vector<std::string> refused_;
  std::vector<ValueId> newWeights_;  // of the open edit
  bool isOpen_ = false;
};

/// Inserts nodes of an open edit before one node, in its module, with inferred types; remembers the first error.
class NodeBuilder {
 public:
  NodeBuilder(GraphEditor& editor, NodeId before) : editor_(editor), before_(before) {}
  /// Arguments in schema order; defaults fill the rest. The node's first result; None after an error.
  Argument call(std::string_view op, std::vector<Argument> args);
  const std::optional<Error>& error() const { return error_; }

 private:
  GraphEditor& editor_;
  NodeId before_;
  std::optional<Error> error_;
};

}  // namespace graft
