#include "app/workbench/compile/tried_schedules.h"

#include <algorithm>
#include <set>

#include "core/compile/codegen/cpu_code.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"

namespace graft::workbench {

std::vector<codegen::LoopSchedule> otherSchedules(const loops::Program& program, size_t most) {
  const auto codeOf = [&](const codegen::LoopSchedule& schedule) {
    const auto code = codegen::makeCpuCode(program, {.level = codegen::CpuLevel::Avx2, .schedule = schedule});
    return code ? code->ir : std::string();
  };
  std::vector<codegen::LoopSchedule> wanted;
  std::set<std::string> ranges;
  for (const loops::Nest& nest : program.nests)
    for (const loops::RangeId r : nest.outer) ranges.insert(program.range(r).name);
  wanted.emplace_back().lanes = codegen::LoopSchedule::inner;
  for (const std::string& range : ranges) wanted.emplace_back().lanes = range;
  for (const int registers : {1, 2, 4}) wanted.emplace_back().registers = registers;
  wanted.emplace_back().transposes = false;
  std::set<std::string> seen{codeOf({})};
  std::vector<codegen::LoopSchedule> out;
  for (const codegen::LoopSchedule& schedule : wanted)
    if (out.size() < most && codegen::checkSchedule(program, schedule))
      if (std::string code = codeOf(schedule); !code.empty() && seen.insert(std::move(code)).second)
        out.push_back(schedule);
  return out;
}

ScheduleTries schedulesToTry(const Graph& g, const FusionOptions& options, const CodeReport& report, size_t most) {
  ScheduleTries out;
  const FusionPlan plan = planFusion(g, options);
  for (const FusionGroup& group : plan.groups) {
    std::vector<std::string> computing;
    for (const NodeId n : group.computing) computing.push_back(g.node(n).name);
    const auto kernel = std::find_if(report.kernels.begin(), report.kernels.end(),
                                     [&](const GeneratedKernel& k) { return !k.isInFile && k.computing == computing; });
    if (kernel == report.kernels.end() || group.choice.isEdited()) continue;
    const auto program = lower::lower(groupGraph(g, group));
    if (!program || !loops::verify(*program)) continue;
    size_t place = 0;
    for (const codegen::LoopSchedule& schedule : otherSchedules(*program, most + 1)) {
      if (schedule == group.choice.schedule || place == most) continue;  // that one is timed anyway
      if (place == out.steerings.size()) {
        out.steerings.push_back(options.steering);
        out.chosen.emplace_back();
      }
      Steering& steering = out.steerings[place];
      std::erase_if(steering.kernels, [&](const Steering::Kernel& k) { return k.nodes == computing; });
      steering.kernels.push_back(
          {.nodes = computing, .choice = {.schedule = schedule}, .loopsFile = {}, .sourceFile = {}});
      out.chosen[place++].emplace_back(static_cast<size_t>(kernel - report.kernels.begin()), schedule);
    }
  }
  return out;
}

}  // namespace graft::workbench
