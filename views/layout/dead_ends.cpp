#include "views/layout/dead_ends.h"

#include <algorithm>
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

/// The window's operators have names and no schemas: of these the table and PyTorch's naming say it.
bool hasNoEffects(const Operator& op) {
  if (op.hasSchema) return !op.sideEffects && !op.writes();
  const std::string_view base = op.baseName(), overload = std::string_view(op.name).substr(op.packetName().size());
  const bool isKnown = op.facts->family != OperatorFamily::Unknown || factsOf(op.name).family != OperatorFamily::Unknown;
  return isKnown && !op.sideEffects && !base.ends_with('_') && overload.find("out") == std::string_view::npos;
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
  const auto mayFold = [&](const Node& n) { return n.blocks.empty() && n.parent == root && hasNoEffects(*n.op); };
  // Downwards: what depends on no input. Control flow, and what is written to, is not followed.
  std::vector<char> isFixed(graph.nodeBound(), 0);
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    bool fixed = mayFold(node) && !graph.inputs().empty();
    forEachInput(node, [&](ValueId v) {
      const Value& value = graph.value(v);
      fixed = fixed && (value.kind == Value::Kind::Weight || (value.producer && isFixed[value.producer.index]));
    });
    isFixed[id.index] = fixed;
  }
  // Upwards: what nothing uses.
  std::vector<char> isUsed(graph.nodeBound(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    bool used = !mayFold(node) || graph.returns().empty();
    for (ValueId v : node.outputs) {
      const Value& value = graph.value(v);
      used = used || value.returnUses > 0 ||
             std::any_of(value.users.begin(), value.users.end(), [&](NodeId user) { return isUsed[user.index]; });
    }
    isUsed[it->index] = used;
  }
  // A node that writes keeps what it writes to, and what shares its memory, in the drawing.
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (hasNoEffects(*node.op)) continue;
    forEachInput(node, [&](ValueId v) {
      if (const NodeId maker = graph.value(v).producer) isFixed[maker.index] = 0;
    });
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
