#include "app/workbench/bench.h"

#include <fmt/format.h>

#include "app/workbench/compare.h"

namespace graft::workbench {
namespace {

Result<AgainstOriginal> timeInExecutor(const Model& original, const Program& fast, const TensorSet& inputs,
                                       const RunOptions& options, double seconds, const Job& job) {
  auto slow = Program::build(original.graph, options);
  if (!slow) return slow.error();
  auto t = timePaired(*slow, fast, inputs, seconds, job);
  if (!t) return t.error();
  return AgainstOriginal{std::move(*t),
                         options.device == "cpu" ? "original (operator by operator)" : "original (captured)"};
}

}  // namespace

Result<AgainstOriginal> timeAgainstOriginal(const Model& original, const Graph& rewritten, const TensorSet& inputs,
                                            const RunOptions& options, double seconds, const Job& job) {
  auto fast = Program::build(rewritten, options);
  if (!fast) return fast.error();
  if (!original.format->torchJitLoads || original.method != "forward" || options.device != "cpu")
    return timeInExecutor(original, *fast, inputs, options, seconds, job);
  auto frozen = frozenTorchScript(original.path, inputs, options);
  if (!frozen) return frozen.error();
  // A file may name the dtypes it was traced with: then TorchScript cannot run it in another, Graft can.
  if (options.dtype && !(*frozen)().ok()) return timeInExecutor(original, *fast, inputs, options, seconds, job);
  const std::string where = fmt::format(
      "{}, {}", options.device, options.threads > 0 ? fmt::format("{} threads", options.threads) : "default threads");
  auto t = timePaired(*frozen, runnable(*fast, inputs), seconds, job, where);
  if (!t) return t.error();
  return AgainstOriginal{std::move(*t), "original (frozen TorchScript)"};
}

Result<BenchReport> bench(const BenchRequest& request, const ChosenRecipe& rules, const Semantics& semantics,
                          const OnBenchStage& onStage, const Job& job) {
  BenchReport report;
  report.model = request.model;
  const auto reached = [&](BenchStage stage) {
    if (onStage) onStage(stage, report);
  };
  if (!request.baselines.empty() && request.method != "forward")
    return Error{ErrorKind::Usage, "--against times what a file's forward computes: give it without --method", {}};
  auto model = open({request.model, request.method}, semantics, job);
  if (!model) return model.error();
  // Rules see the dtypes of the file; the dtype asked for is what both sides then run in.
  InputRequest inFile = request.inputs;
  inFile.dtype.reset();
  auto declared = inputsFor(model->graph, inFile);
  if (!declared) return declared.error();
  report.randomInputs = std::move(declared->random);
  reached(BenchStage::Inputs);
  if (Status s = recordTypes(*model, declared->tensors, semantics.operators()); !s) return s.error();
  const RunOptions options{request.inputs.device, request.inputs.dtype};
  auto inputs = graft::convert(declared->tensors, options.device, options.dtype);
  if (!inputs) return inputs.error();
  report.inputs = inputs->describe();
  Graph rewritten = model->graph;
  auto run = runRecipe(rewritten, rules.file, rules.recipe, semantics);
  if (!run) return run.error();
  for (const StepRun& s : run->steps) report.rewrites += s.records.size();
  report.nodesBefore = model->graph.nodeCount();
  report.nodesAfter = rewritten.nodeCount();
  {  // These programs are gone before others are timed: they leave the memory to those.
    auto a = NamedProgram::build(request.model, model->graph, options);
    if (!a) return a.error();
    if (options.device != "cpu") report.moved = a->program.moved();
    auto b = NamedProgram::build(request.model + ", rewritten", rewritten, options);
    if (!b) return b.error();
    auto differences = differencesOf(model->graph, *a, *b, *inputs, options, job);
    if (!differences) return differences.error();
    report.outputs = std::move(*differences);
  }
  reached(BenchStage::Compared);
  auto timing = timeAgainstOriginal(*model, rewritten, *inputs, options, request.seconds, job);
  if (!timing) return timing.error();
  report.timing = std::move(*timing);
  reached(BenchStage::Timed);
  if (!request.baselines.empty()) {
    auto baselines =
        timeAgainstBaselines(rewritten, *inputs, options,
                             {request.baselines, request.model, &model->graph, request.python}, request.seconds, job);
    if (!baselines) return baselines.error();
    report.baselines = std::move(*baselines);
    reached(BenchStage::BaselinesTimed);
  }
  if (allPassed(report.outputs)) return report;
  report.changedOnPurpose = changingSteps(run->steps);
  if (report.changedOnPurpose.empty())
    report.failure = Error{
        ErrorKind::Verification,
        fmt::format("{}: the rewritten model computes something else: {}. `graft apply` finds the rewrites that do and "
                    "takes them back.",
                    request.model, firstFailure(report.outputs)),
        {}};
  return report;
}

}  // namespace graft::workbench
