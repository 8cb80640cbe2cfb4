// A plan of recipes, run, timed and verified: what `optimize` writes to a file.
//
//   VerifiedPlan verified(prepared, request, trials, report, semantics, job);
//   auto run = verified.run(plan);                             // report.groups and report.result say how that went
//   if (report.result.refusal) run = verified.withoutWrongSteps(plan, std::move(*run));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workbench/apply.h"
#include "app/workbench/optimize/optimize.h"
#include "app/workbench/optimize/plan_run.h"
#include "app/workbench/optimize/trials.h"

namespace graft::workbench {

/// Whether a generated kernel was left out since its operators are faster.
bool isAnySlow(const OptimizeReport&);
/// The calls of generated kernels that became operators again.
std::vector<std::string> takenBackCalls(const OptimizeReport&);

class VerifiedPlan {
 public:
  /// Refers to all of them.
  VerifiedPlan(const Prepared& before, const OptimizeRequest& request, Trials& trials, OptimizeReport& report,
               const Semantics& semantics, const Job& job)
      : before_(before), request_(request), trials_(trials), report_(report), semantics_(semantics), job_(job) {}

  /// The plan verified, and without the generated kernels that are slower than their operators on these inputs. Where
  /// the whole then computes something else, with them: operators may be less exact than the kernels that take their
  /// place. Where it does so still, without those kernels that are to blame. The whole is verified where anything was
  /// rewritten, and the report says how that went.
  Result<PlanRun> run(const Plan&);

  /// Where the whole fails though each rewrite of `run` passes: the steps behind which it does are left out, of the
  /// plan too, one after another, as far as the time for it reaches. None where that did not help.
  Result<std::optional<PlanRun>> withoutWrongSteps(Plan&, PlanRun run);

 private:
  const Prepared& before_;
  const OptimizeRequest& request_;
  Trials& trials_;
  OptimizeReport& report_;
  const Semantics& semantics_;
  const Job& job_;

  /// A step of one of the plan's recipes.
  struct Step {
    std::string recipe, name;
  };

  static Step stepAt(const Plan&, size_t place);
  double furtherSeconds() const;
  Result<PlanRun> rewrite(const Plan&);
  Status verify(const Graph&, ApplyReport& result);
  Result<std::optional<Graph>> withoutWrongKernels(const Graph& all);
  Result<std::optional<Step>> firstWrongStep(const Plan&, const PlanRun&);
};

}  // namespace graft::workbench
