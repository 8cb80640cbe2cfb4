// eliminate_common: pure nodes of one operator with equal arguments are computed once.
#include <unordered_map>

#include "core/text/text.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

Status eliminateCommon(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  const GraphIndex index(g);
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
    editor.begin(id);
    for (size_t o = 0; o < n.outputs.size(); ++o) editor.replaceValue(n.outputs[o], first.outputs[o]);
    editor.erase(id);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(eliminate_common, "", "equal calculations are done once", eliminateCommon)

}  // namespace graft
