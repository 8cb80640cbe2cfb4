#include "views/document/compile/kernel_graph.h"

#include "views/document/compile/plan_difference.h"

namespace graft {

/// No module has such a path.
std::string containerOf(const QString& kernel) { return "kernel " + kernel.toStdString(); }
std::string containerOf(const KernelInfo& k) { return containerOf(k.name); }

ContainerNames containersBeside(const PlanDifference& difference, const CompilePlan& before) {
  ContainerNames names;
  for (const KernelInfo& k : before.kernels) {
    const auto same = difference.same.find(k.name);
    names.insert(k.name, same == difference.same.end() ? "kernel before " + k.name.toStdString() : containerOf(*same));
  }
  return names;
}

std::shared_ptr<const Graph> graphByKernels(const Graph& graph, const CompilePlan& plan, const ContainerNames& names) {
  auto out = std::make_shared<Graph>(graph);
  std::vector<ModuleCallId> calls;
  for (const KernelInfo& k : plan.kernels) {
    const auto named = names.find(k.name);
    const std::string path = named == names.end() ? containerOf(k) : *named;
    calls.push_back(k.isGenerated() && !k.isInPlace ? out->addModuleCall({}, path, "") : ModuleCallId());
  }
  for (const NodeId id : out->order()) {
    const auto at = plan.byNode.find(QString::fromStdString(out->node(id).name));
    out->setModule(id, at == plan.byNode.end() ? ModuleCallId() : calls[at.value()]);
  }
  return out;
}

}  // namespace graft
