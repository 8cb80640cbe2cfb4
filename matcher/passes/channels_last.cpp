// channels_last: on a GPU, the weights of convolutions over images are laid out with channels last. cuDNN's kernels for
// tensor cores read and write images so; a convolution whose weight lies so gives such an image, and groups that fuse()
// makes behind it keep the layout. fold_constants then calculates the weights.
#include <optional>
#include <string_view>

#include "core/ir/subgraph.h"
#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"

namespace graft {
namespace {

constexpr std::string_view contiguous = "aten.contiguous.default";

/// The place of the argument that is a convolution's weight, where that is a weight of the model with two or three
/// dimensions of places.
std::optional<size_t> weightPlace(const Graph& g, const Node& n) {
  const std::optional<size_t> place = convolutionOperand(n, "weight");
  if (!place) return {};
  const Value& weight = g.value(n.args[*place].valueId());
  const auto& shape = weight.type.tensorInfo.shape;
  if (weight.kind != Value::Kind::Weight || staysAtRunTime(weight) || !shape ||
      (shape->size() != 4 && shape->size() != 5))
    return {};
  return place;
}

Status channelsLast(GraphEditor& editor, const Step& step) {
  const Graph& g = editor.graph();
  if (!isForGpu(g, step)) return done();
  ViewRelaxation views(editor);
  for (const NodeId id : g.order()) {
    const std::optional<size_t> place = weightPlace(g, g.node(id));
    if (!place) continue;
    const Node& n = g.node(id);
    const ValueId weight = n.args[*place].valueId(), image = n.outputs[0];
    if (views.isLayoutFixed(image)) continue;
    const Type type = g.value(weight).type;
    const bool isVolume = type.tensorInfo.shape->size() == 5;
    std::vector<Argument> args = n.args;
    editor.begin(id);
    NodeBuilder b(editor, id);
    const Argument laid = b.call(
        contiguous, {args[*place], Argument(Named{isVolume ? "torch.channels_last_3d" : "torch.channels_last"})});
    if (b.error()) {
      editor.cancel();
      return *b.error();
    }
    editor.setType(laid.valueId(), type);
    args[*place] = laid;
    editor.setArguments(id, std::move(args));
    editor.noteChanged(id);
    views.below(image, image);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(channels_last, "gpu=True", "on a GPU, convolutions read their weights, and give images, with channels last",
           channelsLast)

}  // namespace graft
