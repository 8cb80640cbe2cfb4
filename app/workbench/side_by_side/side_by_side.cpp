#include "app/workbench/side_by_side/side_by_side.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include "core/ir/operators/operator_facts.h"

namespace graft::workbench {

double SideBySideRow::maxAbs() const {
  double out = 0;
  for (const Difference& d : outputs) {
    if (!d.measured) return std::numeric_limits<double>::quiet_NaN();  // another shape: no figure says how far
    out = std::max(out, d.maxAbs);
  }
  return out;
}

size_t kernelCount(const Graph& g) {
  using enum OperatorFact;
  size_t count = 0;
  for (const NodeId n : g.order()) {
    const Operator& op = *g.node(n).op;
    count += op.is(View | Reshape | Identity | Splits | MetadataOnly | Guard | Structural | IntegerArithmetic) ? 0 : 1;
  }
  return count;
}

Result<SideBySide> sideBySide(const std::vector<Contestant>& models, const TensorSet& inputs,
                              const CompareRequest& request, const Job& job) {
  assert(models.size() >= 2);
  SideBySide out;
  std::vector<NamedProgram> programs;  // of the rows that run, the first at their head
  std::vector<size_t> rows;
  for (const Contestant& m : models) {
    SideBySideRow row{.name = m.name,
                      .nodes = m.graph->nodeCount(),
                      .kernels = kernelCount(*m.graph),
                      .obstacle = "",
                      .timing = {},
                      .outputs = {}};
    auto program = NamedProgram::build(m.name, *m.graph, request.options);
    if (!program && programs.empty()) return program.error();
    if (!program) row.obstacle = program.error().message;
    out.rows.push_back(std::move(row));
    if (!program) continue;
    if (!programs.empty()) {
      job.report("comparing", out.rows.size() - 1, models.size());
      auto differences = differencesOf(*models[0].graph, programs[0], *program, inputs, request.options, job);
      if (!differences && differences.error().kind == ErrorKind::Cancelled) return differences.error();
      if (!differences) {
        out.rows.back().obstacle = differences.error().message;
        continue;
      }
      out.rows.back().outputs = std::move(*differences);
      out.rows.back().passed = allPassed(out.rows.back().outputs);
    }
    rows.push_back(out.rows.size() - 1);
    programs.push_back(std::move(*program));
  }
  std::vector<ProgramWatch> watches;
  std::vector<Stopwatch> runs;
  for (const NamedProgram& p : programs) {
    auto watch = stopwatch(p.program, inputs, job);
    if (!watch) return watch.error();
    watches.push_back(std::move(*watch));
    runs.push_back(watches.back().run);
  }
  for (const Stopwatch& run : runs)
    if (auto warm = run(); !warm) return warm.error();
  auto times = timeInTurns(runs, request.seconds, job);
  if (!times) return times.error();
  for (size_t i = 0; i < rows.size(); ++i) {
    SideBySideRow& row = out.rows[rows[i]];
    row.timing = std::move((*times)[i]);
    row.ratio = i == 0 ? 1 : medianRatio(out.rows[0].timing, row.timing);
  }
  out.protocol = fmt::format("{}, {}; {} rounds in which each runs once, every second round in reverse",
                             request.options.device, watches[0].how, out.rows[0].timing.samplesMs.size());
  std::vector<std::string> wrong;
  for (const SideBySideRow& row : out.rows)
    if (!row.obstacle.empty())
      wrong.push_back(row.obstacle);
    else if (!row.passed)
      wrong.push_back(fmt::format("{} differs from {}: {}", row.name, out.rows[0].name, firstFailure(row.outputs)));
  if (!wrong.empty()) out.failure = Error{ErrorKind::Verification, fmt::format("{}", fmt::join(wrong, "\n")), {}};
  return out;
}

}  // namespace graft::workbench
