// A rewritten model as text, stage by stage: what `graft apply` and `graft optimize` print of it.
//
//   tellRewritten(report, {.passes = true, .each = o.verbose}, console);   // a row for each step
//   tellVerified(report, console);                                  // the differences of the outputs
//   tellTimed(report, console);                                     // "2.14 times faster; cpu, default threads, …"
//   tellWritten(report, console);                                   // where, and how it is loaded
#pragma once

#include "app/console/console.h"
#include "app/workbench/apply.h"

namespace graft::cli {

/// Which steps get a row.
struct StepsShown {
  bool passes = false;  ///< those that are no rules
  bool idle = false;    ///< rules that found nothing: the first few share a line, or have a row each with `each`
  bool each = false;    ///< and each rewrite that was taken back is told on its own
  bool hints = false;   ///< lines name the options of `graft apply` that say more
};
/// The steps, what verification took back or could not verify, and the nodes before and after.
void tellRewritten(const workbench::ApplyReport&, const StepsShown&, const Console&);
/// Each rewrite passed and the whole did not: what was taken back for that, one line for each with `each`.
void tellBisection(const workbench::ApplyReport&, bool each, const Console&);
void tellVerified(const workbench::ApplyReport&, const Console&);
void tellTimed(const workbench::ApplyReport&, const Console&);
/// Of a report with an output.
void tellWritten(const workbench::ApplyReport&, const Console&);

}  // namespace graft::cli
