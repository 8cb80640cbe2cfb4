// GraphIndex: what the search asks of a graph over and over, computed once in time linear in its nodes: order, nodes by
// operator, which nodes matter to any output, what may share memory, and regions that a rewrite must not cross. What
// few searches ask for (which values are known before running) is computed when first asked. It refers to the graph;
// the graph must outlive it unchanged. One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

class GraphIndex {
 public:
  explicit GraphIndex(const Graph& graph);

  const Graph& graph;
  std::vector<NodeId> order;       ///< a control-flow node before the nodes of its blocks
  std::vector<uint32_t> position;  ///< by node: where it stands in `order`
  std::vector<uint32_t> opOf;      ///< by node: the canonical operator's number
  std::vector<uint8_t> effective;  ///< by node: some output or effect of the model depends on it
  std::vector<NodeId> writers;     ///< nodes that write to memory, in order
  std::vector<NodeId> randoms;     ///< effective random nodes, in order

  static constexpr uint32_t none = UINT32_MAX;
  /// The number of that operator's canonical form, `none` where no node of the graph calls it.
  uint32_t findOperator(std::string_view name) const;
  /// Effective nodes of that operator, in order.
  const std::vector<NodeId>& nodesOf(uint32_t op) const;
  /// Only hands its argument on (alias, detach), which a pattern looks through.
  bool handsOn(NodeId n) const { return handsOn_[opOf[n.index]] != 0; }
  /// Canonical operator names by number.
  const std::vector<std::string>& operatorNames() const { return names_; }

  /// A weight that nothing writes to, or computed from such and literals alone.
  bool isWeightLike(ValueId v) const;
  /// Draws from a generator as it is called here.
  bool isRandom(NodeId n) const;
  /// Block and autocast or no-grad region: nodes of equal numbers may be rewritten together.
  uint32_t regionOf(NodeId n) const { return region_.empty() ? 0 : region_[n.index]; }

  /// The representative of the values that may share memory with v. Only meaningful where something writes.
  uint32_t memoryOf(ValueId v) const;
  /// Graph inputs or weights live in this memory.
  bool visibleOutside(uint32_t memory) const { return memory < visibleMemory_.size() && visibleMemory_[memory] != 0; }
  /// Some node writes to this memory.
  bool isWritten(uint32_t memory) const { return memory < writtenMemory_.size() && writtenMemory_[memory] != 0; }
  /// The values that the node writes to.
  std::vector<ValueId> writtenValues(const Node&) const;

  /// Nodes inside that module call or one below it, in order.
  const std::vector<NodeId>& nodesIn(ModuleCallId) const;

  /// A node of the same block as `block` that is or holds `node`; none where it lies elsewhere.
  NodeId inBlock(NodeId node, BlockId block) const;

 private:
  /// What the index asks of an operator, found once for each that the graph calls.
  struct Facts {
    uint32_t number = 0;
    bool random = false, writes = false;
    bool statistics = false;  ///< may write to statistics that it is given
    bool acts = false;        ///< matters even where nobody uses its result
    bool region = false;      ///< begins, ends or changes an autocast or grad-mode region
    bool mayMatter = false;   ///< any of these
  };
  Facts factsOf(const Operator&);
  void number();
  void findEffects();
  bool staysConstant(ValueId weight) const;
  void findWeightLike() const;
  void findRegions();
  void findMemory();
  uint32_t root(uint32_t v) const;
  void unite(ValueId a, ValueId b);

  std::vector<std::string> names_;
  std::vector<uint8_t> handsOn_;  // by operator
  std::vector<std::vector<NodeId>> byOperator_;
  std::unordered_map<std::string, uint32_t> operatorNumbers_;
  std::vector<NodeId> acting_;  // nodes that matter in themselves
  std::vector<NodeId> unused_;  // nodes with an output that nobody uses, or with none; taken out ones too
  bool hasRegions_ = false;
  std::vector<uint32_t> region_;  // by node; empty where all are in one
  mutable std::vector<uint32_t> memory_;
  std::vector<uint8_t> visibleMemory_, writtenMemory_;
  mutable std::vector<uint8_t> weightLike_;  // by value; empty until asked
  mutable std::vector<std::vector<NodeId>> moduleNodes_;
};

/// Control flow and tuple handling of graphs, which carry no schema but are known all the same.
bool isStructural(const Operator&);
/// Guards that torch.export leaves behind: they assert what shapes and dtypes say already.
bool isGuard(const Operator&);

}  // namespace graft
