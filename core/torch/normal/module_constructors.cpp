#include <array>
#include <string>

#include "core/torch/normal/imported_graph.h"

namespace graft {
namespace {

using Constructor = std::vector<std::pair<std::string, Argument>>;

// The first node of that operator that the call itself owns.
const Node* findOwned(const Graph& g, const std::vector<NodeId>& owned, std::initializer_list<std::string_view> bases) {
  for (NodeId id : owned)
    for (std::string_view base : bases)
      if (g.node(id).op->baseName() == base) return &g.node(id);
  return nullptr;
}

std::vector<int64_t> shapeOf(const Graph& g, const Argument* a) {
  std::vector<int64_t> out;
  if (!a || !a->isValue()) return out;
  if (const auto& shape = g.value(a->valueId()).type.tensorInfo.shape)
    for (const Dim& d : *shape) out.push_back(d.size);
  return out;
}

void copyArguments(const Node& n, std::initializer_list<std::pair<const char*, const char*>> names, Constructor& out) {
  for (const auto& [parameter, name] : names)
    if (const Argument* a = n.findArgument(parameter); a && !a->holdsValue()) out.emplace_back(name, *a);
}

bool hasBias(const Node& n) {
  const Argument* bias = n.findArgument("bias");
  return bias && !bias->isNone();
}

void convolution(const Graph& g, const Node& n, Constructor& out) {
  const auto w = shapeOf(g, n.findArgument("weight"));
  if (w.size() < 3) return;
  int64_t groups = 1;
  if (const Argument* a = n.findArgument("groups"))
    if (const auto* i = a->as<int64_t>()) groups = *i;
  const Argument* flag = n.findArgument("transposed");
  const bool transposed = n.op->baseName().starts_with("conv_transpose") || (flag && *flag == Argument(true));
  out.emplace_back("in_channels", Argument(transposed ? w[0] : w[1] * groups));
  out.emplace_back("out_channels", Argument(transposed ? w[1] * groups : w[0]));
  std::vector<Argument> kernel;
  for (size_t i = 2; i < w.size(); ++i) kernel.emplace_back(w[i]);
  out.emplace_back("kernel_size", Argument::tuple(std::move(kernel)));
  copyArguments(n, {{"stride", "stride"}, {"padding", "padding"}, {"dilation", "dilation"}, {"groups", "groups"}}, out);
  for (auto& [key, value] : out)
    if (const auto* l = value.as<Argument::List>()) value = Argument::tuple(l->items);
  out.emplace_back("bias", Argument(hasBias(n)));
}

Constructor constructorOf(const Graph& g, std::string_view type, const std::vector<NodeId>& owned) {
  Constructor out;
  if (type == "Linear") {
    const Node* n = findOwned(g, owned, {"linear", "addmm", "matmul"});
    const auto w = n ? shapeOf(g, n->findArgument("weight")) : std::vector<int64_t>();
    if (w.size() != 2) return out;
    out = {{"in_features", Argument(w[1])}, {"out_features", Argument(w[0])}, {"bias", Argument(hasBias(*n))}};
  } else if (type.starts_with("Conv")) {
    if (const Node* n = findOwned(g, owned,
                                  {"conv1d", "conv2d", "conv3d", "_convolution", "convolution", "conv_transpose1d",
                                   "conv_transpose2d", "conv_transpose3d"}))
      convolution(g, *n, out);
  } else if (type.starts_with("BatchNorm")) {
    const Node* n = findOwned(g, owned, {"batch_norm"});
    if (!n) return out;
    auto features = shapeOf(g, n->findArgument("running_mean"));
    if (features.empty()) features = shapeOf(g, n->findArgument("weight"));
    if (features.size() != 1) return out;
    out.emplace_back("num_features", Argument(features[0]));
    copyArguments(*n, {{"eps", "eps"}, {"momentum", "momentum"}}, out);
    const Argument* w = n->findArgument("weight");
    out.emplace_back("affine", Argument(w && !w->isNone()));
  } else if (type == "LayerNorm") {
    const Node* n = findOwned(g, owned, {"layer_norm"});
    if (!n) return out;
    copyArguments(*n, {{"normalized_shape", "normalized_shape"}, {"eps", "eps"}}, out);
    if (!out.empty())
      if (const auto* l = out[0].second.as<Argument::List>()) out[0].second = Argument::tuple(l->items);
    const Argument* w = n->findArgument("weight");
    out.emplace_back("elementwise_affine", Argument(w && !w->isNone()));
  } else if (type == "GroupNorm") {
    const Node* n = findOwned(g, owned, {"group_norm"});
    if (!n) return out;
    copyArguments(*n, {{"num_groups", "num_groups"}}, out);
    if (const auto w = shapeOf(g, n->findArgument("weight")); w.size() == 1)
      out.emplace_back("num_channels", Argument(w[0]));
    copyArguments(*n, {{"eps", "eps"}}, out);
  } else if (type == "Embedding") {
    const Node* n = findOwned(g, owned, {"embedding"});
    const auto w = n ? shapeOf(g, n->findArgument("weight")) : std::vector<int64_t>();
    if (w.size() != 2) return out;
    out = {{"num_embeddings", Argument(w[0])}, {"embedding_dim", Argument(w[1])}};
    if (const Argument* pad = n->findArgument("padding_idx"); pad && pad->as<int64_t>() && *pad->as<int64_t>() >= 0)
      out.emplace_back("padding_idx", *pad);
  } else if (type.starts_with("Dropout")) {
    if (const Node* n = findOwned(g, owned, {"dropout", "feature_dropout"})) copyArguments(*n, {{"p", "p"}}, out);
  } else if (type == "GELU") {
    if (const Node* n = findOwned(g, owned, {"gelu"})) copyArguments(*n, {{"approximate", "approximate"}}, out);
  } else if (type == "Softmax" || type == "LogSoftmax") {
    if (const Node* n = findOwned(g, owned, {"softmax", "log_softmax"})) copyArguments(*n, {{"dim", "dim"}}, out);
  } else if (type == "LeakyReLU") {
    if (const Node* n = findOwned(g, owned, {"leaky_relu"}))
      copyArguments(*n, {{"negative_slope", "negative_slope"}}, out);
  } else if (type.starts_with("MaxPool") || type.starts_with("AvgPool")) {
    for (NodeId id : owned) {
      const Node& n = g.node(id);
      if (n.op->baseName().find("_pool") == std::string_view::npos) continue;
      copyArguments(n,
                    {{"kernel_size", "kernel_size"},
                     {"stride", "stride"},
                     {"padding", "padding"},
                     {"dilation", "dilation"},
                     {"ceil_mode", "ceil_mode"}},
                    out);
      break;
    }
  } else if (type.starts_with("AdaptiveAvgPool")) {
    for (NodeId id : owned)
      if (g.node(id).op->baseName().starts_with("adaptive_avg_pool")) {
        copyArguments(g.node(id), {{"output_size", "output_size"}}, out);
        break;
      }
  }
  return out;
}

}  // namespace

void inferConstructors(Graph& g) {
  std::vector<std::vector<NodeId>> owned(g.moduleCalls().size());
  for (NodeId id : g.order())
    if (g.node(id).module) owned[g.node(id).module.index].push_back(id);
  for (size_t i = 0; i < owned.size(); ++i) {
    ModuleCall& call = g.mutableModuleCall(ModuleCallId(static_cast<uint32_t>(i)));
    if (call.constructor.empty() && call.type.starts_with("torch.nn."))
      call.constructor = constructorOf(g, call.shortType(), owned[i]);
  }
}

}  // namespace graft
