// swap_module(A, B): calls of activation module A become calls of B: nn.GELU to nn.ReLU. It changes numbers on purpose.
// Where A or B is no activation, the rule language makes a rule of the step.
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

Status swapModule(GraphEditor& editor, const Step& step) {
  if (step.args.size() != 2) return badInput("swap_module takes two modules: swap_module(nn.GELU, nn.ReLU)");
  const auto from = activation(step, 0), to = activation(step, 1);
  if (!from) return from.error();
  if (!to) return to.error();
  const OperatorRef op = editor.semantics().operators().find((*to)->op);
  if (!op) return internalError("the operator " + std::string((*to)->op) + " is not known to this build");
  const Graph& g = editor.graph();
  const GraphIndex index(g);
  for (const ModuleCall& call : g.moduleCalls()) {
    if (call.shortType() != (*from)->module) continue;
    std::vector<NodeId> nodes;
    for (NodeId n : index.nodesIn(call.id))
      if (g.isAlive(n) && index.effective[n.index]) nodes.push_back(n);
    if (nodes.size() != 1 || g.node(nodes[0]).op->packetName() != (*from)->op.substr(0, (*from)->op.rfind('.')))
      continue;
    const NodeId id = nodes[0];
    editor.begin(id).changesNumbers = true;
    NodeBuilder b(editor, id);
    const Argument now = b.call((*to)->op, {g.node(id).args[0]});
    if (b.error()) {
      editor.cancel();
      return *b.error();
    }
    editor.replaceValue(g.node(id).outputs.front(), now.valueId());
    editor.erase(id);
    editor.replaceModule(call.id, (*to)->module);
    editor.commit();
  }
  return done();
}

}  // namespace

bool isActivationModule(std::string_view name) {
  return std::any_of(activations.begin(), activations.end(), [&](const Activation& a) { return a.module == name; });
}

GRAFT_PASS(swap_module, "nn.GELU, nn.ReLU", "calls of one module, by type or path, become calls of another", swapModule)

}  // namespace graft
