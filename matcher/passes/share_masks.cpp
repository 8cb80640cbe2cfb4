// share_masks: PyTorch's attention makes numbers of a mask of truth values at each call. Where several calls read one
// mask, as the layers of a decoder do, that is done once before the first of them. Of a mask that is expanded, one for
// all queries, the numbers are made before that: the kernels read what little there is.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

constexpr size_t maskPlace = 3;

bool isAttention(const Node& n) {
  return n.op->name == "aten.scaled_dot_product_attention.default" && n.args.size() > maskPlace &&
         n.args[0].isValue() && n.args[maskPlace].isValue();
}

bool isExpansion(const Graph& g, NodeId maker, BlockId block) {
  return maker && g.node(maker).op->name == "aten.expand.default" && g.node(maker).parent == block &&
         g.node(maker).args[0].isValue();
}

Status shareMasks(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  const GraphIndex index(g);
  // Calls that may read one tensor of numbers.
  std::map<std::tuple<ValueId, DType, BlockId, uint32_t>, std::vector<NodeId>> readers;
  for (const NodeId id : index.order) {
    const Node& n = g.node(id);
    if (!isAttention(n)) continue;
    const ValueId mask = n.args[maskPlace].valueId();
    const auto dtype = g.value(n.args[0].valueId()).type.tensorInfo.dtype;
    if (!dtype || g.value(mask).type.tensorInfo.dtype != DType::Bool || index.isWritten(index.memoryOf(mask))) continue;
    readers[{mask, *dtype, n.parent, index.regionOf(id)}].push_back(id);
  }
  for (const auto& [key, calls] : readers) {
    if (calls.size() < 2) continue;
    const auto& [mask, dtype, block, region] = key;
    editor.begin(calls.front());
    // What it is an expansion of. Arguments are copied: the builder's nodes may move those of the graph.
    Argument base(mask);
    std::vector<std::vector<Argument>> expansions;
    for (NodeId maker = g.value(mask).producer; isExpansion(g, maker, block);
         maker = g.value(base.valueId()).producer) {
      expansions.push_back(g.node(maker).args);
      base = expansions.back()[0];
    }
    NodeBuilder b(editor, calls.front());
    const Argument shown =
        b.call("aten.where.Scalar", {base, Argument(0.0), Argument(-std::numeric_limits<double>::infinity())});
    Argument numbers = b.call("aten.to.dtype", {shown, Argument(dtype)});
    for (; !expansions.empty(); expansions.pop_back()) {
      expansions.back()[0] = numbers;
      numbers = b.call("aten.expand.default", expansions.back());
    }
    if (b.error()) {
      editor.cancel();
      editor.noteRefused(b.error()->message);
      continue;
    }
    for (const NodeId id : calls) {
      std::vector<Argument> args = g.node(id).args;
      args[maskPlace] = numbers;
      editor.setArguments(id, std::move(args));
      editor.noteChanged(id);
    }
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(share_masks, "", "masks of truth values that several calls of PyTorch's attention read become numbers once",
           shareMasks)

}  // namespace graft
