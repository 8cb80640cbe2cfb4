// swap_module(A, B): calls of activation module A become calls of B: nn.GELU to nn.ReLU. It changes numbers on purpose.
#include <algorithm>
#include <array>

#include "core/base/suggest.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

struct Activation {
  std::string_view module, op;
};
constexpr std::array<Activation, 10> activations{{
    {"ReLU", "aten.relu.default"},
    {"GELU", "aten.gelu.default"},
    {"Tanh", "aten.tanh.default"},
    {"Sigmoid", "aten.sigmoid.default"},
    {"SiLU", "aten.silu.default"},
    {"ELU", "aten.elu.default"},
    {"LeakyReLU", "aten.leaky_relu.default"},
    {"Hardswish", "aten.hardswish.default"},
    {"Mish", "aten.mish.default"},
    {"Softplus", "aten.softplus.default"},
}};

Result<const Activation*> activation(const Step& step, size_t index) {
  const std::string name = nameArgument(step, index);
  std::vector<std::string> known;
  for (const Activation& a : activations) {
    if (a.module == name) return &a;
    known.emplace_back(a.module);
  }
  const auto nearest = nearestName(name, known);
  return badInput("swap_module(A, B) exchanges activation modules of torch.nn; `" + name + "` is none" +
                  (nearest ? "; did you mean nn." + *nearest + "?" : ""));
}

}  // namespace

Records swapModule(Graph& g, const Semantics& semantics, const Step& step) {
  if (step.args.size() != 2) return badInput("swap_module takes two modules: swap_module(nn.GELU, nn.ReLU)");
  const auto from = activation(step, 0), to = activation(step, 1);
  if (!from) return from.error();
  if (!to) return to.error();
  const OperatorRef op = semantics.operators().find((*to)->op);
  if (!op) return internalError("the operator " + std::string((*to)->op) + " is not known to this build");
  const GraphIndex index(g);
  std::vector<Record> out;
  for (const ModuleCall& call : g.moduleCalls()) {
    if (call.shortType() != (*from)->module) continue;
    std::vector<NodeId> nodes;
    for (NodeId n : index.nodesIn(call.id))
      if (g.isAlive(n) && index.effective[n.index]) nodes.push_back(n);
    if (nodes.size() != 1 || g.node(nodes[0]).op->packetName() != (*from)->op.substr(0, (*from)->op.rfind('.')))
      continue;
    const NodeId id = nodes[0];
    NodeBuilder b(g, semantics, id);
    const Argument now = b.call((*to)->op, {g.node(id).args[0]});
    if (b.error()) {
      const Error e = *b.error();
      b.undo();
      return e;
    }
    Record r = replaceNode(g, id, now.valueId(), "swap_module");
    r.inputs.clear();
    r.added = b.added();
    r.addedNames.push_back(g.node(r.added[0]).name);
    r.changesNumbers = true;
    out.push_back(std::move(r));
    ModuleCall& changed = g.mutableModuleCall(call.id);
    const size_t dot = changed.type.rfind('.');
    changed.type = (dot == std::string::npos ? "" : changed.type.substr(0, dot + 1)) + std::string((*to)->module);
    changed.constructor.clear();
  }
  return out;
}

}  // namespace graft
