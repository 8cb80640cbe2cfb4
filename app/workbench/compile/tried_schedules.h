// Which other schedules of generated kernels are worth a trial: those that make other machine code than the planner's
// own choice. Each run of the model tries one of each kernel.
//
//   const ScheduleTries tries = schedulesToTry(graph, options, report, 5);
//   for (const Steering& s : tries.steerings) time(graph, s);         // tries.chosen says which kernel has which
#pragma once

#include <utility>
#include <vector>

#include "app/workbench/compile/generated_code.h"

namespace graft::workbench {

struct ScheduleTries {
  std::vector<Steering> steerings;
  /// Of each steering: places in the report's kernels, and the schedule that it gives them.
  std::vector<std::vector<std::pair<size_t, codegen::LoopSchedule>>> chosen;
};

/// Up to `most` steerings. Kernels that the model calls already, and those that a person has edited, keep what they
/// have.
ScheduleTries schedulesToTry(const Graph&, const FusionOptions&, const CodeReport&, size_t most);

/// Up to `most` schedules of a program that are possible and make other code, other choices of lanes first.
std::vector<codegen::LoopSchedule> otherSchedules(const loops::Program&, size_t most);

}  // namespace graft::workbench
