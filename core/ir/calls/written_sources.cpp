#include "core/ir/calls/written_sources.h"

#include <vector>

#include "core/ir/calls/written_arguments.h"

namespace graft {
namespace {

/// Whether a result may show the memory of an argument, or be one.
bool mayShowArguments(const Node& n) {
  return !n.op->hasSchema || !n.blocks.empty() || n.op->aliases() || n.op->writes() || mayReturnArgument(n) ||
         n.op->name.starts_with("prim.");
}

}  // namespace

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
    if (!mayShowArguments(n)) continue;
    for (const Argument& a : n.args) a.forEachValue(add);
    for (const BlockId b : n.blocks)
      for (const Argument& a : g.block(b).returns) a.forEachValue(add);
  }
  return out;
}

std::unordered_set<ValueId> writtenMemory(const Graph& g) {
  std::unordered_set<ValueId> out = writtenSources(g);
  for (size_t before = 0; before != out.size() && !out.empty();) {
    before = out.size();
    for (uint32_t at = 0; at < g.nodeBound(); ++at) {
      const NodeId id(at);
      if (!g.isAlive(id) || !mayShowArguments(g.node(id))) continue;
      const Node& n = g.node(id);
      bool any = false;
      const auto look = [&](ValueId v) { any |= out.contains(v); };
      for (const Argument& a : n.args) a.forEachValue(look);
      for (const BlockId b : n.blocks)
        for (const Argument& a : g.block(b).returns) a.forEachValue(look);
      if (!any) continue;
      out.insert(n.outputs.begin(), n.outputs.end());
      for (const BlockId b : n.blocks) out.insert(g.block(b).parameters.begin(), g.block(b).parameters.end());
    }
  }
  return out;
}

}  // namespace graft
