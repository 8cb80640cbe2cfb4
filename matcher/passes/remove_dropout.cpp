// remove_dropout: dropouts that are switched off (train=False or p=0) hand their input on, so they go. Active ones
// stay: removing them would change what the model computes.
#include <algorithm>

#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {

Records removeDropout(Graph& g, const Semantics&, const Step&) {
  const GraphIndex index(g);
  std::vector<Record> out;
  for (NodeId id : index.order) {
    const Node& n = g.node(id);
    if (!n.op->is(OperatorFact::Dropout) || n.args.empty() || !n.args[0].isValue()) continue;
    if (index.isRandom(id) || !n.op->random) continue;
    if (std::any_of(n.outputs.begin() + 1, n.outputs.end(), [&](ValueId v) { return !g.isUnused(v); })) continue;
    // Out of place, the result may be new memory: only where nobody writes to either can they become one.
    const bool inPlace = n.op->writes();
    const ValueId input = n.args[0].valueId();
    if (!inPlace && (index.isWritten(index.memoryOf(n.outputs[0])) || index.isWritten(index.memoryOf(input)))) continue;
    out.push_back(replaceNode(g, id, input, "remove_dropout"));
  }
  return out;
}

}  // namespace graft
