#include "app/workbench/optimize/plan_run.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "app/workbench/optimize/group_trials.h"
#include "core/torch/rewrite_verification.h"
#include "matcher/passes/passes.h"

namespace graft::workbench {
namespace {

/// Of calls that are operators again nothing was added.
void forgetRecords(std::vector<StepRun>& steps, const std::vector<std::string>& calls) {
  for (StepRun& s : steps)
    std::erase_if(s.records, [&](const Record& r) {
      return std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
        return std::find(r.addedNames.begin(), r.addedNames.end(), call) != r.addedNames.end();
      });
    });
}

}  // namespace

Status PlanRun::finish(const std::vector<std::string>& calls, const Semantics& semantics) {
  forgetRecords(made.steps, calls);
  if (!keepsStates) {
    states.clear();
    return done();
  }
  made.subSteps = isTooLarge ? SubSteps(0) : SubSteps();
  for (size_t i = 0; i < made.steps.size(); ++i) {
    if (!states[i]) {  // nothing was changed, or all states together are too large
      made.subSteps.add(made.steps[i].records.size(), made.graph);
      continue;
    }
    std::vector<std::string> here;
    for (const std::string& call : calls)
      if (states[i]->findNode(call)) here.push_back(call);
    if (Status s = restoreOperators(*states[i], here, semantics); !s) return s;
    made.subSteps.add(made.steps[i].records.size(), *states[i]);
  }
  made.subSteps.finish();
  states.clear();
  return done();
}

Result<PlanRun> runPlan(Graph graph, const Plan& plan, const PlanRunRequest& request, const Semantics& semantics,
                        const Job& job) {
  PlanRun out;
  Rewritten& made = out.made;
  made.label = nameOf(plan);
  made.isRecipe = true;
  made.nodesBefore = graph.nodeCount();
  out.keepsStates = request.keepStates;
  size_t nodes = 0;  // of the states
  const VerifyOn& on = request.verify;
  std::unique_ptr<RewriteCheck> check;
  if (on.inputs) check = makeRewriteCheck(*on.inputs, job, on.failingInputs, on.sizesAreOpen, on.furtherSeconds);
  const auto start = std::chrono::steady_clock::now();
  const auto keep = [&](const StepRun& step, const Graph& now) {
    if (!step.records.empty()) nodes += now.nodeCount();
    out.isTooLarge = out.isTooLarge || nodes > SubSteps::mostNodes;
    const bool isKept = out.keepsStates && !out.isTooLarge && !step.records.empty();
    out.states.push_back(isKept ? std::optional(now) : std::nullopt);
  };
  for (const PlannedRecipe& p : plan) {
    Recipe recipe = without(*p.recipe, p.dropped);
    if (request.upTo) {
      const size_t left = *request.upTo - std::min(*request.upTo, made.steps.size());
      if (left < recipe.steps.size()) recipe.steps.resize(left);
      if (left == 0) break;
    }
    auto run = runRecipe(graph, *p.file, recipe, semantics, keep, {check.get(), false});
    if (!run) return run.error();
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped; nothing was changed", {}};
    for (StepRun& s : run->steps) made.steps.push_back(std::move(s));
  }
  made.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  made.verdicts = verdictsOf(made.steps, request.verify);
  made.graph = std::move(graph);
  return out;
}

}  // namespace graft::workbench
