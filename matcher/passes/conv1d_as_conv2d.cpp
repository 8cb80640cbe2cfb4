// conv1d_as_conv2d: on a GPU, convolutions over time become convolutions over images of height one, and the elementwise
// operators between them go over these images. PyTorch has cuDNN compute them so in any case, but in rows: for half
// types cuDNN then turns every image and turns it back. Images may lie with channels last (channels_last), which is
// twice as fast (docs/measurements/zoo.md, "Convolutions over time").
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/ir/operators/operator_facts.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

constexpr int64_t height = 2;  ///< the dimension of one element, in (batch, channels, height, time)
constexpr int64_t ranks = 3;   ///< of what lies over time

Type typeOfImage(Type type) {
  type.tensorInfo.shape->insert(type.tensorInfo.shape->begin() + height, Dim(1));
  return type;
}

/// A list of one number as that of an image's height and width.
std::optional<Argument> withHeight(const Node& n, std::string_view parameter, int64_t ofHeight) {
  const Argument* const a = n.findArgument(parameter);
  if (!a) return std::nullopt;
  const auto* items = a->items();
  if (items && items->size() != 1) return std::nullopt;
  return Argument::list({Argument(ofHeight), items ? items->front() : *a});
}

class OverTime {
 public:
  explicit OverTime(GraphEditor& editor) : editor_(editor), g_(editor.graph()), index_(g_) {}

  void run() {
    for (const NodeId id : std::vector<NodeId>(index_.order)) {
      if (g_.node(id).op->name == "aten.conv1d.default") {
        convolve(id);
      } else if (isElementwise(g_.node(id))) {
        compute(id);
      }
    }
  }

 private:
  struct Image {
    ValueId image;
    BlockId block;  ///< where it is known
  };

  bool isOverTime(ValueId v) const {
    const Type& type = g_.value(v).type;
    return type.isTensor() && type.tensorInfo.rank() == ranks;
  }
  bool isFloating(ValueId v) const {
    const auto dtype = g_.value(v).type.tensorInfo.dtype;
    return dtype && isFloatingPoint(*dtype);
  }
  bool isWritten(ValueId v) const { return index_.isWritten(index_.memoryOf(v)); }

  /// With one filter or several over each channel alone: a window of each channel, for which fuse() makes kernels.
  bool isDepthwise(ValueId weight, const Argument& groups) const {
    const int64_t* const n = groups.as<int64_t>();
    return !n || (*n > 1 && g_.value(weight).type.tensorInfo.shape->at(1).size == 1);
  }

  void convolve(NodeId id) {
    const Node& n = g_.node(id);
    const Argument *input = n.findArgument("input"), *weight = n.findArgument("weight"), *bias = n.findArgument("bias"),
                   *groups = n.findArgument("groups");
    const auto stride = withHeight(n, "stride", 1), padding = withHeight(n, "padding", 0),
               dilation = withHeight(n, "dilation", 1);
    if (!input || !weight || !bias || !groups || !stride || !padding || !dilation) return;
    if (!input->isValue() || !weight->isValue()) return;
    const ValueId x = input->valueId(), w = weight->valueId(), y = n.outputs[0];
    if (!isOverTime(x) || !isOverTime(w) || !isOverTime(y) || !isFloating(x)) return;
    if (isWritten(x) || isWritten(y) || !index_.isWeightLike(w) || isDepthwise(w, *groups)) return;
    const std::vector<Argument> others{*bias, *stride, *padding, *dilation, *groups};
    replace(id, [&](NodeBuilder& b, BlockId block) {
      std::vector<Argument> args{imageOf(b, x, block), withHeightOne(b, w)};
      args.insert(args.end(), others.begin(), others.end());
      return b.call("aten.conv2d.default", std::move(args));
    });
  }

  /// Element by element of tensors over time, of which one is known as an image, and of numbers.
  bool isElementwise(const Node& n) const {
    const OperatorFamily family = n.op->facts->family;
    if (family != OperatorFamily::Arithmetic && family != OperatorFamily::Activation) return false;
    if (!n.op->pure() || n.outputs.size() != 1 || !n.kwargs.empty()) return false;
    if (!isOverTime(n.outputs[0]) || isWritten(n.outputs[0])) return false;
    bool hasImage = false;
    for (const Argument& a : n.args) {
      if (a.items()) return false;
      if (!a.isValue() || g_.value(a.valueId()).type.tensorInfo.rank() == 0) continue;
      if (!isOverTime(a.valueId()) || isWritten(a.valueId())) return false;
      hasImage = hasImage || knownImage(a.valueId(), n.parent);
    }
    return hasImage;
  }

  void compute(NodeId id) {
    const std::string op(g_.node(id).op->name);
    std::vector<Argument> args = g_.node(id).args;
    replace(id, [&](NodeBuilder& b, BlockId block) {
      for (Argument& a : args)
        if (a.isValue() && isOverTime(a.valueId())) a = imageOf(b, a.valueId(), block);
      return b.call(op, std::move(args));
    });
  }

  /// The node's result is, from now on, the image that `make` gives, without its height.
  template <typename Make>
  void replace(NodeId id, Make make) {
    const BlockId block = g_.node(id).parent;
    const ValueId result = g_.node(id).outputs[0];
    editor_.begin(id);
    NodeBuilder b(editor_, id);
    const Argument image = make(b, block);
    const Argument over = b.call("aten.squeeze.dim", {image, Argument(height)});
    if (b.error()) {  // it stays as it is
      editor_.cancel();
      return;
    }
    const Type type = g_.value(result).type;
    editor_.setType(image.valueId(), typeOfImage(type));
    editor_.setType(over.valueId(), type);
    editor_.replaceValue(result, over.valueId());
    editor_.erase(id);
    editor_.commit();
    images_.insert_or_assign(over.valueId(), Image{image.valueId(), block});
  }

  std::optional<ValueId> knownImage(ValueId v, BlockId block) const {
    const auto at = images_.find(v);
    return at != images_.end() && at->second.block == block ? std::optional(at->second.image) : std::nullopt;
  }
  Argument imageOf(NodeBuilder& b, ValueId v, BlockId block) const {
    const std::optional<ValueId> known = knownImage(v, block);
    return known ? Argument(*known) : withHeightOne(b, v);
  }
  Argument withHeightOne(NodeBuilder& b, ValueId v) const {
    const Type type = typeOfImage(g_.value(v).type);
    const Argument image = b.call("aten.unsqueeze.default", {Argument(v), Argument(height)});
    if (!b.error()) editor_.setType(image.valueId(), type);
    return image;
  }

  GraphEditor& editor_;
  const Graph& g_;
  const GraphIndex index_;
  std::map<ValueId, Image> images_;  ///< by what lies over time
};

Status conv1dAsConv2d(GraphEditor& editor, const Step& step) {
  if (!isForGpu(editor.graph(), step)) return done();
  OverTime(editor).run();
  eliminateDeadNodes(editor);
  return done();
}

}  // namespace

GRAFT_PASS(conv1d_as_conv2d, "gpu=True",
           "on a GPU, convolutions over time become convolutions over images of height one", conv1dAsConv2d)

}  // namespace graft
