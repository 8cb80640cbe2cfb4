// channels_last: on a GPU, the weights of convolutions over images are laid out with channels last. cuDNN's kernels for
// tensor cores read and write images so; a convolution whose weight lies so gives such an image, and what is generated
// behind it keeps the layout. fold_constants then calculates the weights.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"

namespace graft {
namespace {

constexpr std::string_view contiguous = "aten.contiguous.default";

/// The place of the argument that is a convolution's weight, where that is a weight of the model with two or three
/// dimensions of places.
std::optional<size_t> weightPlace(const Graph& g, const Node& n) {
  constexpr std::array convolutions{"conv2d",           "conv3d",      "conv_transpose2d",
                                    "conv_transpose3d", "convolution", "_convolution"};
  if (std::ranges::find(convolutions, n.op->baseName()) == convolutions.end() || n.outputs.size() != 1) return {};
  const std::optional<size_t> place = n.op->findParameter("weight");
  if (!place || *place >= n.args.size() || !n.args[*place].isValue()) return {};
  const Value& weight = g.value(n.args[*place].valueId());
  const auto& shape = weight.type.tensorInfo.shape;
  if (weight.kind != Value::Kind::Weight || !shape || (shape->size() != 4 && shape->size() != 5)) return {};
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
    const ValueId weight = n.args[*place].valueId(), before = n.outputs[0];
    const Type type = g.value(weight).type, result = g.value(before).type;
    const bool isVolume = type.tensorInfo.shape->size() == 5;
    const std::string name = n.op->name;  // adding nodes moves others
    std::vector<Argument> args = n.args;
    editor.begin(id);
    NodeBuilder b(editor, id);
    const Argument laid = b.call(
        contiguous, {args[*place], Argument(Named{isVolume ? "torch.channels_last_3d" : "torch.channels_last"})});
    args[*place] = laid;
    const Argument image = b.error() ? Argument() : b.call(name, std::move(args));
    if (b.error()) {
      editor.cancel();
      return *b.error();
    }
    editor.setType(laid.valueId(), type);
    editor.setType(image.valueId(), result);
    editor.replaceValue(before, image.valueId());
    views.below(before, image.valueId());
    editor.erase(id);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(channels_last, "gpu=True", "on a GPU, convolutions read their weights, and give images, with channels last",
           channelsLast)

}  // namespace graft
