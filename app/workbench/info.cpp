#include "app/workbench/info.h"
#include "core/torch/operator_library.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace graft::workbench {

Result<ModelInfo> info(const OpenRequest& request, const Semantics& semantics, const Job& job) {
  auto model = open(request, semantics, job);
  if (!model) return model.error();
  ModelInfo out{std::move(*model), 0, {}, {}, {}};
  const Graph& g = out.model.graph;
  out.capture = capturing(g);
  for (NodeId n : g.order()) ++out.operators[g.node(n).op->name];
  for (const ModuleCall& c : g.moduleCalls()) ++out.modules[c.type];
  out.missing = missingOperators(g);
  for (ValueId w : g.weights()) {
    size_t elements = 1;
    if (const auto& shape = g.value(w).type.tensorInfo.shape)
      for (const Dim& d : *shape) elements *= static_cast<size_t>(std::max<int64_t>(d.size, 0));
    out.weightElements += elements;
  }
  return out;
}

Result<ShownModel> show(const ShowRequest& request, const Semantics& semantics, const Job& job) {
  auto model = open(request.model, semantics, job);
  if (!model) return model.error();
  if (request.inputs.isGiven()) {
    auto inputs = inputsFor(model->graph, request.inputs);
    if (!inputs) return inputs.error();
    if (Status s = recordTypes(*model, inputs->tensors, semantics.operators()); !s) return s.error();
  }
  ShownModel out;
  if (!request.rules.empty()) {
    auto rules = loadRecipe(request.rules, request.recipe, semantics.operators());
    if (!rules) return rules.error();
    if (request.isForGpu) planForDevice(rules->recipe, "cuda");
    auto run = runRecipe(model->graph, rules->file, rules->recipe, semantics);
    if (!run) return run.error();
    for (const StepRun& s : run->steps)
      for (const Record& r : s.records)
        for (const auto& [path, name] : r.keptModules) out.keptModules.insert_or_assign(path, name);
    out.isRewritten = true;
    out.foundNothing = foundNothing(run->steps);
    out.rules = std::move(*rules);
  } else if (!request.recipe.empty()) {
    return Error{ErrorKind::Usage, "--recipe names a recipe of a rule file: give it with --rules FILE", {}};
  }
  out.graph = std::move(model->graph);
  return out;
}

Result<std::vector<KernelInfo>> kernels() {
  if (Status s = loadOperatorLibrary(); !s) return s.error();
  const char* described = describeOperatorLibrary();
  if (!described) return internalError("the operator library does not describe itself");
  const nlohmann::json list = nlohmann::json::parse(described, nullptr, false);
  if (!list.is_array()) return internalError("the operator library describes itself in broken JSON");
  std::vector<KernelInfo> out;
  for (const nlohmann::json& op : list)
    out.push_back({op.value("name", "?"), op.value("schema", ""), op.value("doc", ""),
                   op.value("runs_on", std::vector<std::string>()), op.value("needs", "")});
  return out;
}

}  // namespace graft::workbench
