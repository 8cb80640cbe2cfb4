// fold_constants: what depends on weights and literals alone is calculated now and stored as a weight.
//
// Sizes are not folded, even where the types know them: they were recorded with the example inputs, and the model may
// run with others.
#include <algorithm>

#include "core/compile/fusion/loop_conditions.h"
#include "core/ir/subgraph.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

// A result may grow beyond its operands up to this many bytes (broadcast masks, position tables), not more.
constexpr size_t growthLimit = size_t{16} << 20;

std::optional<size_t> bytesOf(const Type& t) {
  if (!t.isTensor() || !t.tensorInfo.dtype || !t.tensorInfo.shape) return std::nullopt;
  size_t bytes = dtypeSize(*t.tensorInfo.dtype);
  for (const Dim& d : *t.tensorInfo.shape) {
    if (!d.isStatic()) return std::nullopt;
    if (d.size > 0 && bytes > SIZE_MAX / static_cast<size_t>(d.size)) return SIZE_MAX;
    bytes *= static_cast<size_t>(d.size);
  }
  return bytes;
}

Status foldConstants(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  const GraphIndex index(g);
  const std::vector<NodeId> asked = loopConditionNodes(g);
  for (NodeId id : index.order) {
    const Node& n = g.node(id);
    if (std::find(asked.begin(), asked.end(), id) != asked.end()) continue;
    if (!n.op->pure() || !n.blocks.empty() || n.outputs.empty() || !index.effective[id.index]) continue;
    bool constant = true;
    size_t operands = 0;
    std::vector<ValueId> used;
    const auto look = [&](ValueId v) {
      constant = constant && g.isWeight(v) && !staysAtRunTime(g.value(v));
      used.push_back(v);
      operands += bytesOf(g.value(v).type).value_or(0);
    };
    for (const Argument& a : n.args) a.forEachValue(look);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(look);
    if (!constant || std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
          return index.isWritten(index.memoryOf(v)) || !g.value(v).type.isTensor();
        }))
      continue;
    size_t bytes = 0;
    for (ValueId v : n.outputs) bytes += bytesOf(g.value(v).type).value_or(used.empty() ? SIZE_MAX / 4 : 0);
    if (bytes > operands && bytes - operands > growthLimit) continue;
    if (std::any_of(used.begin(), used.end(), [&](ValueId v) { return index.isWritten(index.memoryOf(v)); })) continue;
    auto values = editor.semantics().evaluate(g, id);
    if (!values || values->size() != n.outputs.size()) continue;  // no data here: stays a calculation
    const std::string path =
        used.empty() ? "constants." + n.name : g.value(used.front()).path + "_" + std::string(n.op->baseName());
    const std::vector<ValueId> outputs = n.outputs;
    editor.begin(id);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const Semantics::Constant& c = (*values)[o];
      if (!c.data) {
        editor.replaceByLiteral(outputs[o], c.literal);
        continue;
      }
      const ValueId w = editor.addWeight(o ? path + "_" + std::to_string(o) : path, c.type, c.data);
      editor.replaceValue(outputs[o], w);
    }
    editor.erase(id);
    for (ValueId v : used)
      if (g.value(v).alive && g.isUnused(v)) editor.eraseWeight(v);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(fold_constants, "", "what depends on weights and literals alone is calculated now", foldConstants)

}  // namespace graft
