// eliminate_dead: nodes that no output and no effect of the model depends on, and weights that nobody uses.
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {

void eliminateDeadNodes(GraphEditor& editor) {
  const Graph& g = editor.graph();
  const GraphIndex index(g);
  editor.begin();
  bool changed = false;
  for (auto it = index.order.rbegin(); it != index.order.rend(); ++it) {
    if (!g.isAlive(*it) || index.effective[it->index]) continue;
    const Node& n = g.node(*it);
    bool unused = true;
    for (ValueId v : n.outputs) unused = unused && g.isUnused(v);
    if (!unused) continue;  // its user stays too: a block's return without effect
    editor.erase(n.id);
    changed = true;
  }
  for (ValueId w : g.weights()) {
    if (!g.isUnused(w)) continue;
    editor.eraseWeight(w);
    changed = true;
  }
  if (changed)
    editor.commit();
  else
    editor.cancel();
}

namespace {

Status eliminateDead(GraphEditor& editor, const Step&) {
  eliminateDeadNodes(editor);
  return done();
}

}  // namespace

GRAFT_PASS(eliminate_dead, "", "nodes and weights that no output depends on go", eliminateDead)

}  // namespace graft
