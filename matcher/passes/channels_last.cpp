// channels_last: on a GPU, the weights of convolutions over images are laid out with channels last. cuDNN's kernels for
// tensor cores read and write images so; a convolution whose weight lies so gives such an image, and groups that fuse()
// makes behind it keep the layout. fold_constants then calculates the weights. Images that the caller gives are laid
// out once, before all that takes them to a convolution: fuse() makes a kernel of that. And a convolution reads what a
// contiguous() before it reads, for that would lay the image out in the other way.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/compile/fusion/group_text.h"
#include "core/ir/calls/memory_format.h"
#include "core/ir/subgraph.h"
#include "matcher/passes/pass.h"
#include "matcher/rewrite/view_relaxation.h"
#include "matcher/search/graph_index.h"

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
  // PyTorch's own kernel for volumes with a filter for each channel reads rows; cuDNN's takes four times as long.
  if (shape->size() == 5 && (*shape)[1].size == 1) return {};
  return place;
}

Argument formatOf(const Type& image) {
  return Argument(Named{image.tensorInfo.shape->size() == 5 ? "torch.channels_last_3d" : "torch.channels_last"});
}

/// The value with channels last, for the node and those after it. Part of an edit.
Result<ValueId> laidBefore(GraphEditor& editor, NodeId node, ValueId image) {
  const Type type = editor.graph().value(image).type;
  NodeBuilder b(editor, node);
  const Argument laid = b.call(contiguous, {Argument(image), formatOf(type)});
  if (b.error()) return *b.error();
  editor.setType(laid.valueId(), type);
  return laid.valueId();
}

/// The place of the image that a convolution reads and gives with channels last.
std::optional<size_t> imagePlace(const Graph& g, const Node& n) {
  std::optional<size_t> place;
  if (weightPlace(g, n)) place = convolutionOperand(n, "input");
  if (n.op->name.starts_with("graft.") && n.op->facts->family == OperatorFamily::Convolution) place = 0;
  if (!place || !n.args[*place].isValue() || !mayBeImage(g.value(n.args[*place].valueId()).type)) return {};
  return place;
}

/// Whether it makes an image of images: elementwise operators, cats and pads.
bool keepsPlaces(const Graph& g, const Node& n) {
  if (!n.op->pure() || n.outputs.size() != 1 || !mayBeImage(g.value(n.outputs[0]).type)) return false;
  switch (n.op->facts->family) {
    case OperatorFamily::Arithmetic:
    case OperatorFamily::Activation:
    case OperatorFamily::Cast:
      return true;
    default:
      return n.op->baseName() == "cat" || n.op->baseName() == "pad" || n.op->baseName() == "constant_pad_nd";
  }
}

/// Images that the caller gives, and the nodes that take them to a convolution.
class GivenImages {
 public:
  GivenImages(GraphEditor& editor, const GraphIndex& index, ViewRelaxation& views)
      : editor_(editor), g_(editor.graph()), index_(index), views_(views), leads_(g_.nodeBound(), false) {}

  Status layOut() {
    const std::vector<NodeId> order = g_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& n = g_.node(*id);
      if (n.parent != g_.root()) continue;
      leads_[id->index] = imagePlace(g_, n) || (keepsPlaces(g_, n) && !readersOf(n.outputs[0]).empty());
    }
    const std::vector<ValueId> inputs(g_.inputs().begin(), g_.inputs().end());
    for (const ValueId input : inputs)
      if (const Status s = layOut(input, order); !s) return s;
    return done();
  }

 private:
  /// Nodes that take the value to a convolution.
  std::vector<NodeId> readersOf(ValueId v) const {
    std::vector<NodeId> out;
    for (const NodeId user : g_.value(v).users) {
      if (user.index >= leads_.size() || !leads_[user.index]) continue;
      const Node& n = g_.node(user);
      const std::optional<size_t> image = imagePlace(g_, n);
      if (image ? n.args[*image] == Argument(v) : rankOf(n.outputs[0]) == rankOf(v)) out.push_back(user);
    }
    return out;
  }
  std::optional<int64_t> rankOf(ValueId v) const { return g_.value(v).type.tensorInfo.rank(); }

  Status layOut(ValueId input, const std::vector<NodeId>& order) {
    const Type& type = g_.value(input).type;
    if (!mayBeImage(type) || !type.tensorInfo.dtype || !isFloatingPoint(*type.tensorInfo.dtype)) return done();
    const std::vector<NodeId> readers = readersOf(input);
    const bool isFixed =
        std::ranges::any_of(readers, [&](NodeId r) { return views_.isLayoutFixed(g_.node(r).outputs[0]); });
    // A copy would not show what is written to the image, nor show it to the caller.
    if (readers.empty() || isFixed || index_.isWritten(index_.memoryOf(input))) return done();
    const auto first = std::ranges::find_if(order, [&](NodeId n) { return std::ranges::count(readers, n) > 0; });
    editor_.begin(*first);
    const Result<ValueId> laid = laidBefore(editor_, *first, input);
    if (!laid) {
      editor_.cancel();
      return laid.error();
    }
    for (const NodeId reader : readers) {
      std::vector<Argument> args = g_.node(reader).args;
      for (Argument& a : args) a.forEachValueMutable([&](ValueId& v) { v = v == input ? *laid : v; });
      editor_.setArguments(reader, std::move(args));
      editor_.noteChanged(reader);
    }
    views_.below(input, *laid);
    editor_.commit();
    return done();
  }

  GraphEditor& editor_;
  const Graph& g_;
  const GraphIndex& index_;
  ViewRelaxation& views_;
  std::vector<bool> leads_;  // by NodeId
};

/// Convolutions read what a contiguous() lays out row by row: they would turn it again.
void readBeforeRows(GraphEditor& editor, const GraphIndex& index, ViewRelaxation& views) {
  const Graph& g = editor.graph();
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    const std::optional<size_t> place = imagePlace(g, n);
    const NodeId maker = place ? g.value(n.args[*place].valueId()).producer : NodeId();
    if (!maker || g.node(maker).op->name != contiguous || laysChannelsLast(g.node(maker))) continue;
    const Argument before = g.node(maker).args[0];
    if (!before.isValue() || index.isWritten(index.memoryOf(before.valueId()))) continue;
    const ValueId image = n.outputs[0];
    if (views.isLayoutFixed(image)) continue;
    std::vector<Argument> args = n.args;
    args[*place] = before;
    editor.begin(id);
    editor.setArguments(id, std::move(args));
    editor.noteChanged(id);
    views.below(image, image);
    editor.commit();
  }
}

Status layWeightsOut(GraphEditor& editor, ViewRelaxation& views) {
  const Graph& g = editor.graph();
  std::map<std::pair<BlockId, ValueId>, ValueId> laidOut;
  for (const NodeId id : g.order()) {
    const std::optional<size_t> place = weightPlace(g, g.node(id));
    if (!place) continue;
    const Node& n = g.node(id);
    const ValueId weight = n.args[*place].valueId(), image = n.outputs[0];
    if (views.isLayoutFixed(image)) continue;
    std::vector<Argument> args = n.args;
    ValueId& known = laidOut[{n.parent, weight}];
    editor.begin(id);
    if (!known) {
      const Result<ValueId> laid = laidBefore(editor, id, weight);
      if (!laid) {
        editor.cancel();
        return laid.error();
      }
      known = *laid;
    }
    args[*place] = Argument(known);
    editor.setArguments(id, std::move(args));
    editor.noteChanged(id);
    views.below(image, image);
    editor.commit();
  }
  return done();
}

Status channelsLast(GraphEditor& editor, const Step& step) {
  if (!isForGpu(editor.graph(), step)) return done();
  const GraphIndex index(editor.graph());
  ViewRelaxation views(editor);
  readBeforeRows(editor, index, views);
  if (const Status s = GivenImages(editor, index, views).layOut(); !s) return s;
  return layWeightsOut(editor, views);
}

}  // namespace

GRAFT_PASS(channels_last, "gpu=True",
           "on a GPU, convolutions read weights and images with channels last, and give images so", channelsLast)

}  // namespace graft
