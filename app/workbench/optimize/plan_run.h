// A plan of recipes, run: one after another, each rewrite verified by itself. The history keeps the states inside.
//
//   auto run = runPlan(graph, plan, {.verify = on, .keepStates = true}, semantics, job);
//   restoreOperators(run->made.graph, slow, semantics);
//   run->finish(slow, semantics);   run->made.subSteps
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workbench/apply.h"
#include "app/workbench/optimize/trials.h"

namespace graft::workbench {

struct PlanRunRequest {
  VerifyOn verify = {};
  bool keepStates = false;
  std::optional<size_t> upTo = {};  ///< of all recipes' steps together, only so many
};

struct PlanRun {
  Rewritten made;
  std::vector<std::optional<Graph>> states = {};  ///< behind each of its steps that changed something
  bool keepsStates = false, isTooLarge = false;   ///< isTooLarge: they were not kept

  /// `calls` of generated kernels are operators again, in the graph: no record says otherwise, nor do the states
  /// inside, which become `made.subSteps`.
  Status finish(const std::vector<std::string>& calls, const Semantics&);
};

Result<PlanRun> runPlan(Graph, const Plan&, const PlanRunRequest&, const Semantics&, const Job& = {});

}  // namespace graft::workbench
