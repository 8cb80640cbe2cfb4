#include "app/workbench/optimize/verified_plan.h"

#include <algorithm>
#include <utility>

#include "app/workbench/optimize/group_trials.h"
#include "core/base/halving.h"

namespace graft::workbench {
namespace {

constexpr const char* wholeDiffers = "with it, the whole model computes something else: ";

}  // namespace

bool isAnySlow(const OptimizeReport& report) {
  return std::any_of(report.groups.begin(), report.groups.end(),
                     [](const TriedGroup& t) { return !t.isKept && !t.isWrong; });
}

std::vector<std::string> takenBackCalls(const OptimizeReport& report) {
  std::vector<std::string> out;
  for (const TriedGroup& t : report.groups)
    if (!t.isKept) out.push_back(t.node);
  return out;
}

/// For further inputs of the rewrites, for those of the whole, and for leaving out rules, each.
double VerifiedPlan::furtherSeconds() const { return std::min(request_.budget / 2, VerifyOn().furtherSeconds); }

/// The plan once more, each rewrite verified on its own.
Result<PlanRun> VerifiedPlan::rewrite(const Plan& plan) {
  const VerifyOn on{before_.inputs,  !request_.inputs.isGiven(), "", !before_.model.format->declaresSizes, "",
                    furtherSeconds()};
  // The states between are looked at where the whole computes something else.
  auto run = runPlan(before_.model.graph, plan, {on, true, {}}, semantics_, job_);
  if (job_.cancelled()) return stoppedTrying();
  if (!run) return run.error();
  ApplyReport& result = report_.result;
  result.recipe = run->made.label;
  result.nodesBefore = run->made.nodesBefore;
  result.nodesAfter = run->made.graph.nodeCount();
  result.steps = run->made.steps;
  result.unchanged = rewroteNothing(result.steps);
  return run;
}

/// Verifies the whole model.
Status VerifiedPlan::verify(const Graph& graph, ApplyReport& result) {
  return verifyWhole(before_, graph, result, job_, {furtherSeconds(), false});
}

/// Where the whole computes something else with generated kernels and not with their operators, though each kernel
/// passes alone: kernels are added to the operators in halves, and those that it fails with become operators again.
/// Those that are slower than their operators stay out. `all`: the graph with all kernels of report.groups.
///
/// The graph that passes, with report.result and report.groups to match; nothing, and these as they were, where the
/// kernels are not to blame.
Result<std::optional<Graph>> VerifiedPlan::withoutWrongKernels(const Graph& all) {
  Graph best;  // the last that passed
  ApplyReport resultOfBest;
  std::optional<Error> error;
  const auto holds = [](const std::vector<size_t>& in, size_t i) { return std::ranges::find(in, i) != in.end(); };
  const auto passes = [&](const std::vector<size_t>& kernels) {
    if (error) return false;
    std::vector<std::string> calls;
    for (size_t i = 0; i < report_.groups.size(); ++i)
      if (!holds(kernels, i)) calls.push_back(report_.groups[i].node);
    Graph graph = all;
    ApplyReport result = report_.result;
    Status s = restoreOperators(graph, calls, semantics_);
    if (s) s = verify(graph, result);
    if (!s) error = s.error();
    if (job_.cancelled()) error = stoppedTrying();
    if (error || result.refusal) return false;
    best = std::move(graph);
    resultOfBest = std::move(result);
    return true;
  };
  if (!passes({})) return error ? Result<std::optional<Graph>>(*error) : std::optional<Graph>();
  std::vector<size_t> order;
  for (size_t i = 0; i < report_.groups.size(); ++i)
    if (report_.groups[i].isKept) order.push_back(i);
  const Kept kept = keptInHalves(order, furtherSeconds(), passes);
  if (error) return *error;
  const std::string& why = report_.result.verification->why;
  for (const size_t i : order) {
    TriedGroup& t = report_.groups[i];
    t.isKept = holds(kept.numbers, i);
    t.isWrong = !t.isKept;
    if (holds(kept.untried, i))
      t.why = "the time for finding out which kernels are to blame was over; with all of them, " + why;
    else if (t.isWrong)
      t.why = wholeDiffers + why;
  }
  report_.isOutOfTime = report_.isOutOfTime || !kept.isComplete();
  report_.result = std::move(resultOfBest);
  return std::optional<Graph>(std::move(best));
}

Result<PlanRun> VerifiedPlan::run(const Plan& plan) {
  report_.groups.clear();
  auto run = rewrite(plan);
  if (!run) return run.error();
  ApplyReport& result = report_.result;
  Graph& graph = run->made.graph;
  const Graph all = graph;
  auto groups = trials_.tryKernels(graph);
  if (job_.cancelled()) return stoppedTrying();
  if (!groups) return groups.error();
  report_.groups = std::move(*groups);
  if (Status s = verify(graph, result); !s) return s.error();
  const std::vector<TriedGroup> timed = report_.groups;
  if (result.refusal && isAnySlow(report_)) {
    graph = all;
    for (TriedGroup& t : report_.groups) {
      if (!t.isKept) t.why += ", and kept: with its operators the whole model computes something else";
      t.isKept = true;
    }
    if (Status s = verify(graph, result); !s) return s.error();
  }
  if (result.refusal && !report_.groups.empty() && !job_.cancelled()) {
    report_.groups = timed;
    auto right = withoutWrongKernels(all);
    if (!right) return right.error();
    if (*right) graph = std::move(**right);
  }
  if (result.refusal) return run;  // nobody goes through the steps of a model that is not kept
  run->keepsStates = request_.keepSubSteps;
  if (Status s = run->finish(takenBackCalls(report_), semantics_); !s) return s.error();
  result.steps = run->made.steps;
  result.nodesAfter = graph.nodeCount();
  result.unchanged = rewroteNothing(result.steps);
  return run;
}

/// The step at that place of all recipes' steps together.
VerifiedPlan::Step VerifiedPlan::stepAt(const Plan& plan, size_t place) {
  for (const PlannedRecipe& p : plan) {
    const Recipe recipe = without(*p.recipe, p.dropped);
    if (place < recipe.steps.size()) return {recipe.name, recipe.steps[place].name};
    place -= recipe.steps.size();
  }
  return {};
}

/// The first step after which the whole model computes something else. Halving finds it. Of steps whose states are too
/// large to keep, the last one that changed something; nothing where none did.
Result<std::optional<VerifiedPlan::Step>> VerifiedPlan::firstWrongStep(const Plan& plan, const PlanRun& run) {
  if (run.isTooLarge) {
    for (size_t i = run.made.steps.size(); i-- > 0;)
      if (!run.made.steps[i].records.empty()) return std::optional(stepAt(plan, i));
    return std::optional<Step>();
  }
  std::vector<size_t> steps;  // that changed something
  for (size_t i = 0; i < run.states.size(); ++i)
    if (run.states[i]) steps.push_back(i);
  if (steps.empty()) return std::optional<Step>();
  size_t right = 0, wrong = steps.size() - 1;  // the first wrong one is among these
  while (right < wrong) {
    const size_t middle = (right + wrong) / 2;
    ApplyReport of = report_.result;
    of.refusal.reset();
    const Status s = verify(*run.states[steps[middle]], of);
    if (job_.cancelled()) return stoppedTrying();
    if (!s) return s.error();
    (of.refusal ? wrong : right) = of.refusal ? middle : middle + 1;
  }
  return std::optional(stepAt(plan, steps[wrong]));
}

Result<std::optional<PlanRun>> VerifiedPlan::withoutWrongSteps(Plan& plan, PlanRun run) {
  const double start = trials_.seconds();
  while (trials_.seconds() <= start + furtherSeconds()) {
    auto wrong = firstWrongStep(plan, run);
    if (!wrong) return wrong.error();
    if (!*wrong) break;
    const Step step = **wrong;
    const std::string why = wholeDiffers + report_.result.verification->why;
    plan = withoutRule(std::move(plan), step.recipe, step.name);
    auto row = std::ranges::find_if(report_.rules,
                                    [&](const TriedRule& r) { return r.recipe == step.recipe && r.rule == step.name; });
    if (row == report_.rules.end()) row = report_.rules.insert(row, {step.recipe, step.name, 0, {}, true, true, {}});
    row->isKept = false;
    row->isWrong = true;
    row->why = why;
    auto fewer = this->run(plan);
    if (!fewer) return fewer.error();
    if (report_.result.unchanged) break;
    if (!report_.result.refusal) return std::optional<PlanRun>(std::move(*fewer));
    run = std::move(*fewer);
  }
  return std::optional<PlanRun>();
}

}  // namespace graft::workbench
