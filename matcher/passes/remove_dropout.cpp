// remove_dropout: a dropout that is switched off (train=False or p=0) hands its input on, so it goes. Active ones stay:
// removing them would change what the model computes.
#include <algorithm>

#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

Status removeDropout(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  const GraphIndex index(g);
  for (NodeId id : index.order) {
    const Node& n = g.node(id);
    if (!n.op->is(OperatorFact::Dropout) || n.args.empty() || !n.args[0].isValue()) continue;
    if (index.isRandom(id) || !n.op->random) continue;
    if (std::any_of(n.outputs.begin() + 1, n.outputs.end(), [&](ValueId v) { return !g.isUnused(v); })) continue;
    // Out of place, the result may be new memory: input and result can become one only where nobody writes to either.
    const bool inPlace = n.op->writes();
    const ValueId input = n.args[0].valueId();
    if (!inPlace && (index.isWritten(index.memoryOf(n.outputs[0])) || index.isWritten(index.memoryOf(input)))) continue;
    editor.replaceNode(id, input);
  }
  return done();
}

}  // namespace

GRAFT_PASS(remove_dropout, "", "dropouts that are switched off go", removeDropout)

}  // namespace graft
