// split_bias: on a GPU, the bias of a convolution becomes an addition behind it, where a generated kernel may take it
// along. PyTorch adds it there in a kernel of its own, which reads and writes the whole result once more.
#include <string_view>

#include "core/compile/fusion/fusion.h"
#include "matcher/passes/pass.h"

namespace graft {
namespace {

/// PyTorch's own kernels for one channel each add the bias themselves.
bool isDepthwise(const Graph& g, const Node& n) {
  const Argument* const weight = n.findArgument("weight");
  if (!weight || !weight->isValue()) return true;
  const auto& shape = g.value(weight->valueId()).type.tensorInfo.shape;
  const Argument* const groups = n.findArgument("groups");
  const bool isOneGroup = !groups || groups->number() == 1.0;
  return !shape || shape->size() < 3 || (!isOneGroup && !((*shape)[1].isStatic() && (*shape)[1].size > 1));
}

std::optional<size_t> splitPlace(const Graph& g, const Node& n) {
  const std::optional<size_t> place = convolutionOperand(n, "bias");
  if (!place) return {};
  if (isDepthwise(g, n) || !feedsKernel(g, n.outputs[0])) return {};
  return place;
}

Status splitBias(GraphEditor& editor, const Step& step) {
  const Graph& g = editor.graph();
  if (!isForGpu(g, step)) return done();
  for (const NodeId id : g.order()) {
    const std::optional<size_t> place = splitPlace(g, g.node(id));
    if (!place) continue;
    const Node& n = g.node(id);
    const Type type = g.value(n.outputs[0]).type;
    const Argument bias = n.args[*place];
    // Behind the channels, the result has as many dimensions as the weight, with a batch or without.
    const size_t rank = g.value(n.findArgument("weight")->valueId()).type.tensorInfo.shape->size();
    std::vector<Argument> args = n.args, shape(rank - 1, Argument(int64_t{1}));
    args[*place] = Argument();
    shape[0] = Argument(int64_t{-1});
    editor.begin(id);
    NodeBuilder b(editor, id);
    const Argument alone = b.call(n.op->name, std::move(args));
    const Argument whole =
        b.call("aten.add.Tensor", {alone, b.call("aten.reshape.default", {bias, Argument::list(std::move(shape))})});
    if (b.error()) {
      editor.cancel();
      return *b.error();
    }
    for (const Argument& a : {alone, whole}) editor.setType(a.valueId(), type);
    editor.replaceValue(g.node(id).outputs[0], whole.valueId());
    editor.erase(id);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(split_bias, "gpu=True",
           "on a GPU, biases of convolutions become additions, which generated kernels take along", splitBias)

}  // namespace graft
