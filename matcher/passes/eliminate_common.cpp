// eliminate_common: pure nodes of equal arguments are computed once.
#include <unordered_map>

#include "core/text/text.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {

Records eliminateCommon(Graph& g, const Semantics&, const Step&) {
  const GraphIndex index(g);
  std::vector<Record> out;
  std::unordered_map<std::string, NodeId> seen;
  for (NodeId id : index.order) {
    const Node& n = g.node(id);
    if (!n.op->pure() || n.outputs.empty() || !n.blocks.empty()) continue;
    bool written = false;
    const auto look = [&](ValueId v) { written = written || index.isWritten(index.memoryOf(v)); };
    for (ValueId v : n.outputs) look(v);
    std::string key = std::to_string(n.parent.index) + " " + n.op->name;
    for (const Argument& a : n.args) {
      a.forEachValue(look);
      key += ", " + toText(a, g);
    }
    for (const auto& [name, a] : n.kwargs) {
      a.forEachValue(look);
      key += ", " + name + "=" + toText(a, g);
    }
    key += " " + std::to_string(index.regionOf(id));
    if (written) continue;
    const auto [it, fresh] = seen.try_emplace(std::move(key), id);
    if (fresh) continue;
    const Node& first = g.node(it->second);
    if (first.outputs.size() != n.outputs.size()) continue;
    Record r;
    r.rule = "eliminate_common";
    r.scope = g.scopeOf(id);
    r.removed.push_back(id);
    r.removedNames.push_back(n.name);
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      r.outputs.emplace_back(g.value(n.outputs[o]).name, g.value(first.outputs[o]).name);
      g.replaceAllUses(n.outputs[o], first.outputs[o]);
    }
    g.erase(id);
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace graft
