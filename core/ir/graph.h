// Graph: a model as a value. Nodes and values are referred to by id; copying a graph copies everything but the weights'
// data, which snapshots share. The graph owns its nodes, values, blocks, module calls and source lines.
//
//   Graph g;
//   ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
//   NodeId n = g.append(g.root(), relu, {Argument(x)});
//   g.setReturns(g.root(), {Argument(g.output(n))});
//   for (NodeId id : g.order()) use(g.node(id));
//
// Arguments stand in schema order with every default filled in (node.args[i] belongs to node.op->parameters[i]); nodes
// of operators without a schema keep positional arguments in args and keyword arguments in kwargs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/id.h"
#include "core/ir/argument.h"
#include "core/ir/id_table.h"
#include "core/ir/operator.h"
#include "core/ir/slack_vector.h"
#include "core/ir/type.h"

namespace graft {

/// The bytes of a weight. Implementations map files or hold tensors; loaded on demand, shared between snapshots.
class WeightData {
 public:
  virtual ~WeightData() = default;
  virtual size_t byteSize() const = 0;
};

/// How the source spelled a node, so that the FX table and code can be printed back exactly.
struct Origin {
  std::string opcode;  ///< placeholder, get_attr, call_function, call_method, call_module, output
  std::string name;
  std::string target;  ///< as FX's table prints it: "<built-in function add>", "clamp", "fc1"
  std::string callee;  ///< for call_function, as code spells it: "operator.add", "torch.nn.functional.softmax"
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
};
/// The same spelling for other arguments: `now` has other values where `was` has values. Null where the spelling does
/// not name them (a module's call does not name its weights) or where something else differs.
std::shared_ptr<const Origin> respelled(const std::shared_ptr<const Origin>&, const std::vector<Argument>& was,
                                        const std::vector<Argument>& now);

struct SourceLocation {
  std::string file;
  int line = 0;                   ///< from 1; 0: unknown
  int column = 0, endColumn = 0;  ///< from 1, the end exclusive; 0: unknown
  std::string code;               ///< the line's text where the file carries it
  bool operator==(const SourceLocation&) const = default;
};

struct Node {
  NodeId id;
  OperatorRef op;
  std::string name;  ///< unique; that of its first output where it has one
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::vector<ValueId> outputs;
  std::vector<BlockId> blocks;  ///< control flow: prim.If has two, prim.Loop one
  BlockId parent;
  ModuleCallId module;                   ///< the innermost module call that owns it; none: the model itself
  uint32_t source = UINT32_MAX;          ///< into Graph::sources()
  std::shared_ptr<const Origin> origin;  ///< edits of the graph keep it in step with the arguments, or drop it
  NodeId previous, next;                 ///< neighbours in its block
  int64_t orderKey = 0;                  ///< grows along the block
  bool alive = true;

  /// The argument of that parameter, or null.
  const Argument* findArgument(std::string_view parameter) const;
};

struct Value {
  enum class Kind : uint8_t { Output, BlockParameter, Weight };
  ValueId id;
  Kind kind = Kind::Output;
  std::string name;  ///< unique in the graph
  Type type;
  NodeId producer;            ///< for Output
  BlockId block;              ///< for BlockParameter: whose
  std::vector<NodeId> users;  ///< each once, in no particular order
  uint32_t returnUses = 0;    ///< how often block returns name it
  // Weights only:
  std::string path;  ///< "encoder.layer.0.attention.self.query.weight"
  std::shared_ptr<const WeightData> data;
  bool isBuffer = false;    ///< a buffer or constant, not a parameter
  bool isConstant = false;  ///< a tensor literal of the graph, not part of any module
  bool isFrozen = false;    ///< a parameter that takes no gradient: its requires_grad is False
  bool alive = true;
};

struct Block {
  BlockId id;
  NodeId owner;  ///< none for the root
  std::vector<ValueId> parameters;
  std::vector<Argument> returns;
  NodeId first, last;
  size_t size = 0;
};

/// What sizes a symbolic dimension may have. One without an entry may have any.
struct Symbol {
  std::string name;                 ///< "s0", as Dim::symbol spells it
  std::optional<int64_t> min, max;  ///< inclusive; absent: no bound
  bool operator==(const Symbol&) const = default;
};

/// One call of a module: the tree of these serves drawing, scopes, matching by module, and times rolled up.
struct ModuleCall {
  ModuleCallId id, parent;                                    ///< no parent: called by the model itself
  std::string path;                                           ///< "encoder.layer.0.attention.self"
  std::string type;                                           ///< "torch.nn.modules.linear.Linear"; empty where unknown
  std::vector<std::pair<std::string, Argument>> constructor;  ///< where known: in_features=384, ...
  std::vector<ValueId> inputs;  ///< in the order of the call where the source says so; may be empty

  /// "self" of "encoder.layer.0.attention.self".
  std::string_view lastName() const;
  /// "Linear" of "torch.nn.modules.linear.Linear".
  std::string_view shortType() const;
};

class Graph {
 public:
  Graph();

  std::string name;  ///< of the model's class; may be empty
  /// Null where the model takes its inputs as positional arguments and returns what the root block returns.
  std::shared_ptr<const CallingConvention> calling;

  // Reading
  // ---------------------------------------------------------------------------------------------------------------
  BlockId root() const { return BlockId(0); }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const Block& block(BlockId id) const { return blocks_[id.index]; }
  const ModuleCall& moduleCall(ModuleCallId id) const { return modules_[id.index]; }
  std::span<const ModuleCall> moduleCalls() const { return modules_; }
  std::span<const SourceLocation> sources() const { return sources_; }
  const SourceLocation* sourceOf(const Node&) const;
  std::span<const ValueId> inputs() const { return block(root()).parameters; }
  std::span<const Argument> returns() const { return block(root()).returns; }
  /// The symbols of which a range is known, in the order of their names.
  std::span<const Symbol> symbols() const { return symbols_; }
  const Symbol* findSymbol(std::string_view name) const;
  /// Weights in the order they were added (see declaration_order.h), only those alive.
  std::vector<ValueId> weights() const;
  /// Nodes of one block, in order.
  std::vector<NodeId> order(BlockId block) const;
  /// All nodes, in order, a control-flow node before the nodes of its blocks.
  std::vector<NodeId> order() const;
  size_t nodeCount() const { return liveNodes_; }
  /// Upper bounds of the ids in use, for side tables.
  size_t nodeBound() const { return nodes_.size(); }
  size_t valueBound() const { return values_.size(); }
  size_t blockBound() const { return blocks_.size(); }
  bool isAlive(NodeId id) const { return id.index < nodes_.size() && nodes_[id.index].alive; }
  /// The only output. The node must have exactly one.
  ValueId output(NodeId id) const;
  /// Both in the same block: whether a comes first.
  bool isBefore(NodeId a, NodeId b) const;
  bool isInput(ValueId v) const;
  bool isWeight(ValueId v) const { return value(v).kind == Value::Kind::Weight; }
  /// Used by nobody and returned by no block.
  bool isUnused(ValueId v) const { return value(v).users.empty() && value(v).returnUses == 0; }
  NodeId findNode(std::string_view name) const;
  ValueId findValue(std::string_view name) const;
  /// The weight of that path, or none.
  ValueId findWeight(std::string_view path) const;
  /// Whether `call` is `ancestor` or lies under it. An invalid ancestor is the model, which holds all.
  bool isWithin(ModuleCallId call, ModuleCallId ancestor) const;
  /// The innermost module call that holds both; invalid where only the model does.
  ModuleCallId commonModule(ModuleCallId a, ModuleCallId b) const;
  /// The call's full path; "" for the model.
  std::string_view scopeOf(NodeId id) const;

  // Building and editing. Keeps users, order and names consistent; `verify` checks the rest.
  // -----------------------------------
  ValueId addInput(std::string_view name, Type type) { return addBlockParameter(root(), name, std::move(type)); }
  ValueId addBlockParameter(BlockId block, std::string_view name, Type type);
  /// `path` is where the model keeps it; the value's name is made from it.
  ValueId addWeight(std::string_view path, Type type, std::shared_ptr<const WeightData> data, bool isBuffer = false);
  ModuleCallId addModuleCall(ModuleCallId parent, std::string path, std::string type);
  uint32_t addSource(SourceLocation location);
  /// Replaces what is known of the symbol of that name.
  void setSymbol(Symbol);
  BlockId addBlock(NodeId owner);

  /// Adds a node with one output for each of the operator's returns (types as the schema has them); `name` is a wish:
  /// it is made unique. An empty name takes the operator's.
  NodeId append(BlockId block, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  NodeId insertBefore(NodeId at, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  NodeId insertAfter(NodeId at, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  /// Inserts at the front of the block.
  NodeId prepend(BlockId block, OperatorRef op, std::vector<Argument> args, std::string_view name = {});
  /// For operators without a schema or with a variable number of outputs.
  ValueId addOutput(NodeId node, std::string_view name, Type type);
  /// The node must be without uses; its blocks go with it.
  void erase(NodeId node);
  /// Removes a weight nobody uses.
  void eraseWeight(ValueId weight);
  void moveBefore(NodeId node, NodeId at);
  /// Moves the node into another place right after `at` (which may be in another block).
  void moveAfter(NodeId node, NodeId at);
  void setArgument(NodeId node, size_t index, Argument arg);
  void setArguments(NodeId node, std::vector<Argument> args);
  void setKeywordArguments(NodeId node, std::vector<std::pair<std::string, Argument>> kwargs);
  void setOperator(NodeId node, OperatorRef op) {
    nodes_[node.index].op = std::move(op);
    nodes_[node.index].origin.reset();
  }
  void setReturns(BlockId block, std::vector<Argument> returns);
  void setType(ValueId v, Type type) { values_[v.index].type = std::move(type); }
  void setModule(NodeId n, ModuleCallId m) { nodes_[n.index].module = m; }
  void setSource(NodeId n, uint32_t s) { nodes_[n.index].source = s; }
  void setOrigin(NodeId n, std::shared_ptr<const Origin> o) { nodes_[n.index].origin = std::move(o); }
  /// Gives the value (and its node, where it is the first output) that name, made unique; returns the name it got.
  std::string rename(ValueId v, std::string_view name);
  ModuleCall& mutableModuleCall(ModuleCallId id) { return modules_[id.index]; }
  Value& mutableWeight(ValueId v) { return values_[v.index]; }
  /// Every use of `from` (returns too) becomes one of `to`.
  void replaceAllUses(ValueId from, ValueId to);
  /// All weights alive, each once, in the order they shall have.
  void setWeightOrder(std::vector<ValueId> order) { weightOrder_ = std::move(order); }
  /// All module calls, each once, parents before their children: the ids of calls become their places in `order`.
  void setModuleCallOrder(const std::vector<ModuleCallId>& order);
  /// Reserve space before adding many nodes.
  void reserve(size_t nodes);

 private:
  NodeId create(BlockId block, NodeId before, OperatorRef op, std::vector<Argument> args, std::string_view name);
  void link(NodeId node, BlockId block, NodeId before);
  void unlink(NodeId node);
  void renumber(BlockId block);
  void addUses(NodeId user);
  void dropUses(NodeId user);
  uint32_t findName(std::string_view name) const;
  std::string uniqueName(std::string_view wish);
  ValueId newValue(Value::Kind kind, std::string_view name, Type type);

  SlackVector<Node> nodes_;
  SlackVector<Value> values_;
  std::vector<Block> blocks_;
  std::vector<ModuleCall> modules_;
  std::vector<SourceLocation> sources_;
  std::vector<Symbol> symbols_;
  std::vector<ValueId> weightOrder_;  // erased ones too
  IdTable names_;                     // of values, and of nodes without outputs: those ids are marked
  IdTable weightPaths_;
  IdTable sourceTable_;
  std::unordered_map<std::string, uint32_t> nextSuffix_;
  size_t liveNodes_ = 0;
};

}  // namespace graft
