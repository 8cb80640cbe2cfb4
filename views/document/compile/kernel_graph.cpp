#include "views/document/compile/kernel_graph.h"

#include "views/document/compile/compile_plan.h"

namespace graft {

/// No module has such a path.
std::string containerOf(const KernelInfo& k) { return "kernel " + k.name.toStdString(); }

std::shared_ptr<const Graph> graphByKernels(const Graph& graph, const CompilePlan& plan) {
  auto out = std::make_shared<Graph>(graph);
  std::vector<ModuleCallId> calls;
  for (const KernelInfo& k : plan.kernels)
    calls.push_back(k.isGenerated() && !k.isInPlace ? out->addModuleCall({}, containerOf(k), "") : ModuleCallId());
  for (const NodeId id : out->order()) {
    const auto at = plan.byNode.find(QString::fromStdString(out->node(id).name));
    out->setModule(id, at == plan.byNode.end() ? ModuleCallId() : calls[at.value()]);
  }
  return out;
}

}  // namespace graft
