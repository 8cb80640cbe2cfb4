#include "app/workbench/compile/measured_kernels.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "app/workbench/compile/roofline.h"
#include "app/workbench/compile/tried_schedules.h"
#include "app/workbench/profile.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/torch/executor.h"
#include "matcher/passes/passes.h"

namespace graft::workbench {
namespace {

constexpr int rounds = 5, repetitions = 4;  ///< of each way in turns, so that a busy moment slows all of them

using Times = std::unordered_map<std::string, double>;  // microseconds, by a node's name

/// One way to run the model: its graph, and the medians of its nodes' times in each round.
struct Way {
  Graph graph;
  std::vector<StepRun> steps = {};  ///< that made it
  std::unordered_map<std::string, std::vector<double>> samples = {};

  Times times() {
    Times out;
    for (auto& [node, all] : samples) {
      std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
      out.emplace(node, all[all.size() / 2]);
    }
    return out;
  }
};

Status timeInTurns(const std::vector<Way*>& ways, const TensorSet& inputs, const Job& job) {
  RunOptions options;
  options.fixedShapes = false;
  std::vector<Program> programs;
  for (const Way* way : ways) {
    auto program = Program::build(way->graph, options);
    if (!program) return program.error();
    programs.push_back(std::move(*program));
  }
  const Job quiet{job.cancel, {}};
  for (int round = 0; round < rounds; ++round) {
    job.report("timing kernels", static_cast<size_t>(round), static_cast<size_t>(rounds));
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto times = timeNodes(programs[i], inputs, repetitions, quiet);
      if (!times) return times.error();
      Times sums;
      for (const NodeTimes& t : *times) sums[ways[i]->graph.node(t.node).name] += t.microseconds;
      for (const auto& [node, time] : sums) ways[i]->samples[node].push_back(time);
    }
  }
  return done();
}

double sumOf(const Times& times) {
  double sum = 0;
  for (const auto& [node, time] : times) sum += time;
  return sum;
}

Result<Way> withKernels(const Graph& g, const FusionOptions& options, const Semantics& semantics) {
  Way way{g};
  Recipe recipe;
  recipe.name = "fuse";
  recipe.steps.push_back(fuseStep(options));
  auto run = runRecipe(way.graph, RuleFile{}, recipe, semantics);
  if (!run) return run.error();
  way.steps = std::move(run->steps);
  return way;
}

/// The time of each kernel, by the names of nodes that it takes the place of; "": of the whole model.
Times kernelTimes(Way& way) {
  const Times times = way.times();
  Times out{{"", sumOf(times)}};
  for (const StepRun& step : way.steps)
    for (const Record& record : step.records) {
      double sum = 0;
      for (const std::string& added : record.addedNames)
        if (const auto at = times.find(added); at != times.end()) sum += at->second;
      for (const std::string& removed : record.removedNames) out.emplace(removed, sum);
    }
  return out;
}

/// The nodes that a kernel stands for alone: several kernels may hold one view.
const std::vector<std::string>& ownNodes(const GeneratedKernel& k) {
  return k.computing.empty() ? k.nodes : k.computing;
}

std::optional<double> timeOf(const Times& times, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes)
    if (const auto at = times.find(node); at != times.end()) return at->second;
  return std::nullopt;
}

/// What each kernel and call moves and computes with the sizes of these inputs, and the least time for that.
void addRoofline(const Graph& g, const FusionOptions& options, const TensorSet& inputs, const OperatorSet& operators,
                 CodeReport& report) {
  Roofline roof("cpu", 0);
  report.measured->bandwidth = roof.bytesPerMicrosecond();
  Graph typed = g;
  if (!recordTypes(typed, inputs)) return;
  const std::vector<FusionNode> nodes = fusionNodes(typed, options);
  const auto bytesOfAll = [&](const std::vector<std::string>& values) {
    double bytes = 0;
    for (const std::string& name : values)
      if (const ValueId v = typed.findValue(name); v && typed.value(v).type.isTensor())
        bytes += bytesOf(typed.value(v).type);
    return bytes;
  };
  for (GeneratedKernel& k : report.kernels) {
    KernelWork work;
    if (k.isInFile) {
      work = workOf(typed, typed.findNode(k.call), &operators);
    } else {
      work.bytesRead = bytesOfAll(k.inputs);
      work.bytesWritten = bytesOfAll(k.outputs);
      double apart = 0;
      for (const std::string& name : k.computing) {
        const NodeId id = typed.findNode(name);
        const KernelWork own = workOf(typed, id, &operators);
        if (own.operations) work.operations = work.operations.value_or(0) + *own.operations;
        work.type = own.type;
        apart += nodes[id.index].outputBytes;
        for (const FusionRead& r : nodes[id.index].reads)
          if (typed.value(r.base).type.isTensor()) apart += bytesOf(typed.value(r.base).type);
      }
      k.bytesApart = static_cast<size_t>(apart);
    }
    k.bytes = static_cast<size_t>(work.bytes());
    k.bytesWritten = static_cast<size_t>(work.bytesWritten);
    k.operations = work.operations;
    if (k.measured) k.measured->least = roof.least(work);
  }
  for (SingleCall& call : report.calls) {
    const KernelWork work = workOf(typed, typed.findNode(call.node), &operators);
    call.bytesRead = static_cast<size_t>(work.bytesRead);
    call.bytesWritten = static_cast<size_t>(work.bytesWritten);
    call.operations = work.operations;
    if (call.microseconds) call.least = roof.least(work);
  }
  for (const auto& [type, speed] : roof.operationsPerMicrosecond())
    if (speed > 0) report.measured->speeds.emplace(type, speed);
}

Argument namesOf(const std::vector<std::string>& names) {
  std::vector<Argument> items;
  for (const std::string& name : names) items.emplace_back(name);
  return Argument::list(std::move(items));
}

}  // namespace

Step fuseStep(const FusionOptions& options) {
  Step step;
  step.name = "fuse";
  if (!options.only.empty()) step.kwargs.emplace_back("only", namesOf(options.only));
  if (!options.apart.empty()) step.kwargs.emplace_back("apart", namesOf(options.apart));
  step.kwargs.emplace_back("max_nodes", Argument(static_cast<int64_t>(options.maxNodes)));
  if (!options.steering.isEmpty()) {
    Steering inOneText = options.steering;
    for (Steering::Kernel& k : inOneText.kernels) k.loopsFile = k.sourceFile = "";
    step.kwargs.emplace_back("plan", Argument(printSteering(inOneText)));
  }
  return step;
}

Result<Graph> graphWithKernels(const Graph& g, const FusionOptions& options, const Semantics& semantics) {
  Result<Way> way = withKernels(g, options, semantics);
  if (!way) return way.error();
  return std::move(way->graph);
}

Status measureKernels(const Graph& g, const FusionOptions& options, const TensorSet& inputs, const Semantics& semantics,
                      CodeReport& report, const Job& job, bool triesSchedules) {
  Way asItIs{g};
  Result<Way> fused = withKernels(g, options, semantics);
  if (!fused) return fused.error();
  std::vector<Way*> ways{&asItIs, &*fused};
  std::optional<Way> unchosen;  // without what people chose for the kernels
  if (std::any_of(report.kernels.begin(), report.kernels.end(), [](const auto& k) { return !k.choice.isEmpty(); })) {
    FusionOptions without = options;
    without.steering.kernels.clear();
    Result<Way> way = withKernels(g, without, semantics);
    if (!way) return way.error();
    ways.push_back(&unchosen.emplace(std::move(*way)));
  }
  const ScheduleTries tries = triesSchedules ? schedulesToTry(g, options, report, kMostTried) : ScheduleTries();
  std::list<Way> tried;
  for (const Steering& steering : tries.steerings) {
    FusionOptions other = options;
    other.steering = steering;
    Result<Way> way = withKernels(g, other, semantics);
    if (!way) return way.error();
    ways.push_back(&tried.emplace_back(std::move(*way)));
  }
  if (Status s = timeInTurns(ways, inputs, job); !s) return s;
  const Times before = asItIs.times(), after = kernelTimes(*fused);
  const std::optional<Times> plain = unchosen ? std::optional(kernelTimes(*unchosen)) : std::nullopt;
  Times standing;  // by node: the kernel that computes it now, or its own
  for (const auto& [node, time] : before) standing[node] = time;
  std::unordered_map<std::string, const GeneratedKernel*> kernelOf;
  report.measured = {.operators = sumOf(before), .kernels = after.at("")};
  for (SingleCall& call : report.calls) call.microseconds = timeOf(before, {call.node});
  for (GeneratedKernel& k : report.kernels) {
    const std::optional<double> time = k.isInFile ? timeOf(before, {k.call}) : timeOf(after, ownNodes(k));
    if (!time) continue;
    KernelTimes& measured = k.measured.emplace();
    measured.kernel = *time;
    if (k.isInFile) continue;
    if (plain && !k.choice.isEmpty()) measured.generated = timeOf(*plain, ownNodes(k));
    for (const std::string& node : k.nodes) {
      kernelOf.emplace(node, &k);
      standing[node] = *time;
      if (after.contains(node))
        if (const auto at = before.find(node); at != before.end()) measured.operators += at->second;
    }
  }
  size_t number = 0;
  for (Way& way : tried) {
    const Times times = kernelTimes(way);
    for (const auto& [kernel, schedule] : tries.chosen[number++])
      if (const auto time = timeOf(times, ownNodes(report.kernels[kernel])))
        report.kernels[kernel].tried.push_back({schedule, *time});
  }
  for (GeneratedKernel& k : report.kernels)
    std::stable_sort(k.tried.begin(), k.tried.end(),
                     [](const auto& a, const auto& b) { return a.microseconds < b.microseconds; });
  addRoofline(g, options, inputs, semantics.operators(), report);
  for (FusionDecision& d : report.decisions) {
    const auto a = kernelOf.find(d.producer), b = kernelOf.find(d.consumer);
    const bool isOne = a != kernelOf.end() && b != kernelOf.end() && a->second == b->second;
    const auto first = standing.find(d.producer), second = standing.find(d.consumer);
    if (first == standing.end() || second == standing.end()) continue;
    d.measured = isOne ? first->second : first->second + second->second;
  }
  return done();
}

}  // namespace graft::workbench
