#include "views/layout/dead_ends.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/ir/operators/operator_facts.h"

namespace graft {
namespace {

/// Sets of nodes that hang together, by the index of a node.
class Groups {
 public:
  explicit Groups(size_t count) : up_(count) { std::iota(up_.begin(), up_.end(), 0u); }
  uint32_t find(uint32_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return i;
  }
  void join(uint32_t a, uint32_t b) { up_[find(a)] = find(b); }

 private:
  std::vector<uint32_t> up_;
};

OperatorFamily familyOf(const Operator& op) {
  if (op.facts->family != OperatorFamily::Unknown) return op.facts->family;
  if (const OperatorFamily own = factsOf(op.name).family; own != OperatorFamily::Unknown) return own;
  std::string_view packet = op.packetName();  // in place as not in place
  if (packet.ends_with('_')) packet.remove_suffix(1);
  return factsOf(packet).family;
}

/// The window's operators have names and no schemas: of these PyTorch's naming says it.
bool writes(const Operator& op) {
  if (op.hasSchema) return op.writes();
  return op.baseName().ends_with('_') || op.name.find("out", op.packetName().size()) != std::string::npos;
}

bool isKnown(const Operator& op) {
  return op.hasSchema || op.name.starts_with("aten.") || familyOf(op) != OperatorFamily::Unknown;
}

/// Of its first argument it takes the size, the dtype or the device, and no number.
bool takesOnlySizes(const Operator& op) {
  constexpr std::array<std::string_view, 9> asks{"size",   "sym_size",   "dim",    "numel", "sym_numel",
                                                 "stride", "sym_stride", "device", "dtype"};
  const std::string_view base = op.baseName();
  if (std::find(asks.begin(), asks.end(), base) != asks.end()) return true;
  return familyOf(op) == OperatorFamily::Factory && (base.ends_with("_like") || base.starts_with("new_"));
}

template <typename F>
void forEachInput(const Node& node, F&& f) {
  for (const Argument& a : node.args) a.forEachValue(f);
  for (const auto& [name, a] : node.kwargs) a.forEachValue(f);
}

}  // namespace

DeadEnds findDeadEnds(const Graph& graph, const std::vector<char>& isHidden) {
  const std::vector<NodeId> order = graph.order();
  DeadEnds out;
  out.of.resize(graph.nodeBound());
  std::vector<Fold> kind(graph.nodeBound(), Fold::None);
  const BlockId root = graph.root();
  const auto mayFold = [&](const Node& n) {
    return !n.outputs.empty() && n.blocks.empty() && n.parent == root && isKnown(*n.op) && !n.op->sideEffects;
  };
  // What shares memory, as far as names tell: a view and what it is of, what is written and the result.
  Groups memory(graph.nodeBound());
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (familyOf(*node.op) != OperatorFamily::Shape && !writes(*node.op)) continue;
    bool isFirst = true;
    forEachInput(node, [&](ValueId v) {
      if (const NodeId maker = graph.value(v).producer; maker && isFirst) memory.join(maker.index, id.index);
      isFirst = false;
    });
  }
  // Downwards: what depends on no input. Where something else is written to memory, nothing of it is constant.
  std::vector<char>& isFixed = out.isConstant;
  isFixed.assign(graph.nodeBound(), 0);
  std::vector<char> isTainted(graph.nodeBound(), 0);
  constexpr int mostRounds = 20;
  bool changed = true;
  for (int round = 0; changed; ++round) {
    if (round == mostRounds) {  // writes depend on writes, over and over: nothing is called constant
      isFixed.assign(graph.nodeBound(), 0);
      break;
    }
    changed = false;
    for (NodeId id : order) {
      const Node& node = graph.node(id);
      bool fixed = mayFold(node) && !graph.inputs().empty() && !isTainted[memory.find(id.index)];
      bool isSizeOnly = takesOnlySizes(*node.op);
      forEachInput(node, [&](ValueId v) {
        const Value& value = graph.value(v);
        fixed = fixed &&
                (isSizeOnly || value.kind == Value::Kind::Weight || (value.producer && isFixed[value.producer.index]));
        isSizeOnly = false;
      });
      isFixed[id.index] = fixed;
      if (fixed || !(writes(*node.op) || !isKnown(*node.op))) continue;
      forEachInput(node, [&](ValueId v) {
        const NodeId maker = graph.value(v).producer;
        if (!maker) return;
        char& tainted = isTainted[memory.find(maker.index)];
        changed |= !tainted;
        tainted = 1;
      });
    }
  }
  // Upwards: what nothing uses.
  std::vector<char> isUsed(graph.nodeBound(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    bool used = !mayFold(node) || writes(*node.op) || graph.returns().empty();
    for (ValueId v : node.outputs) {
      const Value& value = graph.value(v);
      used = used || value.returnUses > 0 ||
             std::any_of(value.users.begin(), value.users.end(), [&](NodeId user) { return isUsed[user.index]; });
    }
    isUsed[it->index] = used;
  }
  for (NodeId id : order)
    kind[id.index] = !isUsed[id.index] ? Fold::Unused : isFixed[id.index] ? Fold::Constant : Fold::None;
  Groups groups(graph.nodeBound());
  for (NodeId id : order) {
    if (kind[id.index] == Fold::None || isHidden[id.index]) continue;
    forEachInput(graph.node(id), [&](ValueId v) {
      const NodeId maker = graph.value(v).producer;
      if (maker && kind[maker.index] == kind[id.index] && graph.node(maker).module == graph.node(id).module)
        groups.join(maker.index, id.index);
    });
  }
  std::map<uint32_t, DeadEnds::Fold> parts;
  for (NodeId id : order)
    if (kind[id.index] != Fold::None && !isHidden[id.index]) {
      DeadEnds::Fold& fold = parts[groups.find(id.index)];
      fold.kind = kind[id.index];
      fold.nodes.push_back(id);
    }
  for (auto& [first, fold] : parts) {
    if (fold.nodes.size() < 2) continue;
    const NodeId last = fold.nodes.back();
    for (NodeId id : fold.nodes) out.of[id.index] = last;
    out.folds.emplace(last, std::move(fold));
  }
  return out;
}

}  // namespace graft
