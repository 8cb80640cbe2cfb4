#include "app/workbench/compile/measured_kernels.h"

#include <algorithm>
#include <unordered_map>

#include "app/workbench/compile/memory_bandwidth.h"
#include "app/workbench/profile.h"
#include "core/torch/executor.h"
#include "matcher/passes/passes.h"

namespace graft::workbench {
namespace {

constexpr int repetitions = 20;

using Times = std::unordered_map<std::string, double>;  // microseconds, by a node's name

Result<Times> nodeTimes(const Graph& g, const TensorSet& inputs, const Job& job) {
  RunOptions options;
  options.fixedShapes = false;
  auto program = Program::build(g, options);
  if (!program) return program.error();
  auto times = timeNodes(*program, inputs, repetitions, job);
  if (!times) return times.error();
  Times out;
  for (const NodeTimes& t : *times) out[g.node(t.node).name] += t.microseconds;
  return out;
}

double sumOf(const Times& times) {
  double sum = 0;
  for (const auto& [node, time] : times) sum += time;
  return sum;
}

/// The time of each kernel, by the names of nodes that it takes the place of; "": of the whole model.
Result<Times> kernelTimes(Graph g, const FusionOptions& options, const TensorSet& inputs, const Semantics& semantics,
                          const Job& job) {
  Recipe recipe;
  recipe.name = "fuse";
  recipe.steps.push_back(fuseStep(options));
  const auto run = runRecipe(g, RuleFile{}, recipe, semantics);
  if (!run) return run.error();
  const auto times = nodeTimes(g, inputs, job);
  if (!times) return times.error();
  Times out{{"", sumOf(*times)}};
  for (const StepRun& step : run->steps)
    for (const Record& record : step.records) {
      double sum = 0;
      for (const std::string& added : record.addedNames)
        if (const auto at = times->find(added); at != times->end()) sum += at->second;
      for (const std::string& removed : record.removedNames) out.emplace(removed, sum);
    }
  return out;
}

std::optional<double> timeOf(const Times& times, const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes)
    if (const auto at = times.find(node); at != times.end()) return at->second;
  return std::nullopt;
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

Status measureKernels(const Graph& g, const FusionOptions& options, const TensorSet& inputs, const Semantics& semantics,
                      CodeReport& report, const Job& job) {
  const auto before = nodeTimes(g, inputs, job);
  if (!before) return before.error();
  const auto after = kernelTimes(g, options, inputs, semantics, job);
  if (!after) return after.error();
  std::optional<Times> plain;  // without what people chose for the kernels
  if (std::any_of(report.kernels.begin(), report.kernels.end(), [](const auto& k) { return !k.choice.isEmpty(); })) {
    FusionOptions without = options;
    without.steering.kernels.clear();
    auto times = kernelTimes(g, without, inputs, semantics, job);
    if (!times) return times.error();
    plain = std::move(*times);
  }
  Times standing;  // by node: the kernel that computes it now, or its own
  for (const auto& [node, time] : *before) standing[node] = time;
  std::unordered_map<std::string, const GeneratedKernel*> kernelOf;
  report.measured = {sumOf(*before), after->at(""), memoryBandwidth(0)};
  for (SingleCall& call : report.calls) call.microseconds = timeOf(*before, {call.node});
  for (GeneratedKernel& k : report.kernels) {
    const std::optional<double> time = k.isInFile ? timeOf(*before, {k.call}) : timeOf(*after, k.nodes);
    if (!time) continue;
    KernelTimes& measured = k.measured.emplace();
    measured.kernel = *time;
    if (k.isInFile) continue;
    if (plain && !k.choice.isEmpty()) measured.generated = timeOf(*plain, k.nodes);
    for (const std::string& node : k.nodes) {
      kernelOf.emplace(node, &k);
      standing[node] = *time;
      if (after->contains(node))
        if (const auto at = before->find(node); at != before->end()) measured.operators += at->second;
    }
  }
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
