#include "core/ir/calls/written_sources.h"

#include <vector>

#include "core/ir/calls/written_arguments.h"

namespace graft {

std::unordered_set<ValueId> writtenSources(const Graph& g) {
  std::unordered_set<ValueId> out;
  std::vector<ValueId> work;
  const auto add = [&](ValueId v) { work.push_back(v); };
  for (uint32_t at = 0; at < g.nodeBound(); ++at) {
    const NodeId id(at);
    if (!g.isAlive(id)) continue;
    forEachWritten(g, g.node(id), add);
  }
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (!out.insert(v).second) continue;
    const Value& value = g.value(v);
    NodeId from = value.producer;
    // A loop's or a branch's own value may be any of what the node is given.
    if (value.kind == Value::Kind::BlockParameter && value.block) from = g.block(value.block).owner;
    if (!from) continue;
    const Node& n = g.node(from);
    const bool isView = !n.op->hasSchema || !n.blocks.empty() || n.op->aliases() || n.op->writes() ||
                        mayReturnArgument(n) || n.op->name.starts_with("prim.");
    if (!isView) continue;
    for (const Argument& a : n.args) a.forEachValue(add);
    for (const BlockId b : n.blocks)
      for (const Argument& a : g.block(b).returns) a.forEachValue(add);
  }
  return out;
}

}  // namespace graft
