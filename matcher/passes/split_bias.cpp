// split_bias: on a GPU, the bias of a convolution becomes an addition behind it, where a generated kernel may take it
// along. PyTorch adds it there in a kernel of its own, which reads and writes the whole result once more. Of Graft's
// convolutions in groups the residual and the activation become operators, too: no library's kernel takes them along.
// Where a group has several channels, Graft's convolution stays, which chooses how to compute it.
#include <map>
#include <string_view>

#include "core/compile/fusion/fusion.h"
#include "matcher/passes/pass.h"

namespace graft {
namespace {

constexpr size_t imageRank = 4;

const std::vector<Dim>* weightShape(const Graph& g, const Node& n) {
  const Argument* const weight = n.findArgument("weight");
  if (!weight || !weight->isValue()) return nullptr;
  const auto& shape = g.value(weight->valueId()).type.tensorInfo.shape;
  return shape && shape->size() >= 3 ? &*shape : nullptr;
}

bool hasGroups(const Node& n) {
  const Argument* const groups = n.findArgument("groups");
  return groups && groups->number() != 1.0;
}

/// PyTorch's own kernels for one channel each add the bias themselves. Those of cuDNN, for images with channels last,
/// do not.
bool addsBiasItself(const Node& n, const std::vector<Dim>& weight) {
  return hasGroups(n) && weight.size() != imageRank && !(weight[1].isStatic() && weight[1].size > 1);
}

/// Builds what takes a convolution's place, all of its result's type.
class Pieces {
 public:
  Pieces(GraphEditor& editor, NodeId id)
      : editor_(editor),
        id_(id),
        type_(editor.graph().value(editor.graph().node(id).outputs[0]).type),
        // Behind the channels, the result has as many dimensions as the weight, with a batch or without.
        rank_(weightShape(editor.graph(), editor.graph().node(id))->size()),
        b_(editor, id) {
    editor.begin(id);
  }

  Argument add(std::string_view op, std::vector<Argument> args) {
    const Argument made = b_.call(op, std::move(args));
    if (!b_.error()) editor_.setType(made.valueId(), type_);
    return made;
  }
  Argument addBias(const Argument& to, const Argument& bias) {
    std::vector<Argument> shape(rank_ - 1, Argument(int64_t{1}));
    shape[0] = Argument(int64_t{-1});
    return add("aten.add.Tensor", {to, b_.call("aten.reshape.default", {bias, Argument::list(std::move(shape))})});
  }
  Status finish(const Argument& whole) {
    if (b_.error()) {
      editor_.cancel();
      return *b_.error();
    }
    editor_.replaceValue(editor_.graph().node(id_).outputs[0], whole.valueId());
    editor_.erase(id_);
    editor_.commit();
    return done();
  }

 private:
  GraphEditor& editor_;
  const NodeId id_;
  const Type type_;
  const size_t rank_;
  NodeBuilder b_;
};

std::optional<size_t> splitPlace(const Graph& g, const Node& n) {
  const std::optional<size_t> place = convolutionOperand(n, "bias");
  const std::vector<Dim>* const weight = weightShape(g, n);
  if (!place || !weight || addsBiasItself(n, *weight) || !feedsKernel(g, n.outputs[0])) return {};
  return place;
}

Status splitBias(GraphEditor& editor, NodeId id, size_t place) {
  const Node n = editor.graph().node(id);
  std::vector<Argument> args = n.args;
  args[place] = Argument();
  Pieces pieces(editor, id);
  const Argument alone = pieces.add(n.op->name, std::move(args));
  return pieces.finish(pieces.addBias(alone, n.args[place]));
}

/// The activation of graft::conv_activation or conv_bias_add_relu as a call of PyTorch's; no name: there is none.
struct ActivationCall {
  std::string_view op;
  std::vector<Argument> more;
};
std::optional<ActivationCall> activationOf(const Node& n) {
  const Argument* const relu = n.findArgument("relu");
  if (relu && relu->as<bool>()) return *relu->as<bool>() ? ActivationCall{"aten.relu.default", {}} : ActivationCall{};
  const Argument* const said = n.findArgument("activation");
  const std::string* const name = said ? said->as<std::string>() : nullptr;
  if (!name) return {};
  const auto number = [&](std::string_view parameter) {
    const Argument* const a = n.findArgument(parameter);
    return a ? *a : Argument(0.0);
  };
  const std::map<std::string_view, ActivationCall> all{
      {"none", {}},
      {"relu", {"aten.relu.default", {}}},
      {"gelu", {"aten.gelu.default", {Argument(std::string("none"))}}},
      {"gelu_tanh", {"aten.gelu.default", {Argument(std::string("tanh"))}}},
      {"silu", {"aten.silu.default", {}}},
      {"sigmoid", {"aten.sigmoid.default", {}}},
      {"tanh", {"aten.tanh.default", {}}},
      {"hardswish", {"aten.hardswish.default", {}}},
      {"hardsigmoid", {"aten.hardsigmoid.default", {}}},
      {"hardtanh", {"aten.clamp.default", {number("alpha"), number("beta")}}},
      {"leaky_relu", {"aten.leaky_relu.default", {number("alpha")}}},
  };
  const auto found = all.find(*name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

bool isInGroups(const Graph& g, const Node& n) {
  const bool isOurs = n.op->name == "graft.conv_bias_add_relu.default" || n.op->name == "graft.conv_activation.default";
  return isOurs && hasGroups(n) && weightShape(g, n);
}

/// graft::conv_activation and conv_bias_add_relu as a convolution, additions and an activation.
Status takeApart(GraphEditor& editor, NodeId id, const ActivationCall& activation) {
  const Node n = editor.graph().node(id);
  const size_t places = weightShape(editor.graph(), n)->size() - 2;
  const auto argument = [&](std::string_view name) { return *n.findArgument(name); };
  const bool isDepthwise = weightShape(editor.graph(), n)->at(1).size == 1;
  Pieces pieces(editor, id);
  const Argument none;
  Argument value = isDepthwise
                       ? pieces.add("aten.conv" + std::to_string(places) + "d.default",
                                    {argument("x"), argument("weight"), none, argument("stride"), argument("padding"),
                                     argument("dilation"), argument("groups")})
                       : pieces.add("graft.conv_bias_add_relu.default",
                                    {argument("x"), argument("weight"), none, none, argument("stride"),
                                     argument("padding"), argument("dilation"), argument("groups"), Argument(false)});
  if (argument("bias").isValue()) value = pieces.addBias(value, argument("bias"));
  if (argument("residual").isValue()) value = pieces.add("aten.add.Tensor", {value, argument("residual")});
  if (!activation.op.empty()) {
    std::vector<Argument> args{value};
    args.insert(args.end(), activation.more.begin(), activation.more.end());
    value = pieces.add(activation.op, std::move(args));
  }
  return pieces.finish(value);
}

Status splitAll(GraphEditor& editor, const Step& step) {
  const Graph& g = editor.graph();
  if (!isForGpu(g, step)) return done();
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (isInGroups(g, n)) {
      if (const auto activation = activationOf(n))
        if (const Status s = takeApart(editor, id, *activation); !s) return s;
    } else if (const std::optional<size_t> place = splitPlace(g, n)) {
      if (const Status s = splitBias(editor, id, *place); !s) return s;
    }
  }
  return done();
}

}  // namespace

GRAFT_PASS(split_bias, "gpu=True",
           "on a GPU, biases of convolutions, and activations of those in groups, become operators, which generated "
           "kernels take along",
           splitAll)

}  // namespace graft
