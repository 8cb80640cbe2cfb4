// eliminate_dead: nodes that no output and no effect of the model depends on, and weights that nobody uses.
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {

Records eliminateDead(Graph& g, const Semantics&, const Step&) {
  const GraphIndex index(g);
  Record r;
  r.rule = "eliminate_dead";
  for (auto it = index.order.rbegin(); it != index.order.rend(); ++it) {
    if (!g.isAlive(*it) || index.effective[it->index]) continue;
    const Node& n = g.node(*it);
    bool unused = true;
    for (ValueId v : n.outputs) unused = unused && g.isUnused(v);
    if (!unused) continue;  // its user stays too: a block's return without effect
    r.removed.push_back(n.id);
    r.removedNames.push_back(n.name);
    g.erase(n.id);
  }
  size_t weights = 0;
  for (ValueId w : g.weights())
    if (g.isUnused(w)) {
      g.eraseWeight(w);
      ++weights;
    }
  std::vector<Record> out;
  if (!r.removed.empty() || weights) out.push_back(std::move(r));
  return out;
}

}  // namespace graft
