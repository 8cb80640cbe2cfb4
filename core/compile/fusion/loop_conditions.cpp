#include "core/compile/fusion/loop_conditions.h"

#include <limits>
#include <unordered_set>

namespace graft {
namespace {

/// A longer computation is no condition that somebody wrote for while_loop.
constexpr size_t mostNodesOfCondition = 64;

/// The nodes of the block that compute `condition` from values of `carried`, and others that the block does not make.
std::vector<NodeId> computationOf(const Graph& g, const Argument& condition, BlockId block,
                                  const std::unordered_set<ValueId>& carried) {
  std::vector<NodeId> found;
  std::unordered_set<ValueId> seen;
  std::vector<ValueId> open;
  const auto look = [&](ValueId v) {
    if (!carried.contains(v) && seen.insert(v).second) open.push_back(v);
  };
  condition.forEachValue(look);
  while (!open.empty() && found.size() <= mostNodesOfCondition) {
    const NodeId producer = g.value(open.back()).producer;
    open.pop_back();
    if (!producer || g.node(producer).parent != block || !g.node(producer).blocks.empty()) continue;
    found.push_back(producer);
    for (const Argument& a : g.node(producer).args) a.forEachValue(look);
  }
  return found.size() <= mostNodesOfCondition ? found : std::vector<NodeId>();
}

}  // namespace

std::vector<NodeId> loopConditionNodes(const Graph& g) {
  std::vector<NodeId> all;
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op->name != "prim.Loop" || n.blocks.size() != 1 || n.args.size() < 2 ||
        n.args[0] != Argument(std::numeric_limits<int64_t>::max()))
      continue;
    const Block& body = g.block(n.blocks[0]);
    std::unordered_set<ValueId> before, after;
    for (size_t i = 2; i < n.args.size(); ++i) n.args[i].forEachValue([&](ValueId v) { before.insert(v); });
    for (size_t i = 1; i < body.returns.size(); ++i) body.returns[i].forEachValue([&](ValueId v) { after.insert(v); });
    for (const NodeId node : computationOf(g, n.args[1], n.parent, before)) all.push_back(node);
    for (const NodeId node : computationOf(g, body.returns[0], body.id, after)) all.push_back(node);
  }
  return all;
}

}  // namespace graft
