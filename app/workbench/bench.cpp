#include "app/workbench/bench.h"

#include <fmt/format.h>

#include "app/workbench/compare.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"
#include "core/torch/graph_in_dtype.h"

namespace graft::workbench {
namespace {

/// On a GPU both as captured graphs, timed there.
Result<AgainstOriginal> timeCapturedGraphs(const Graph& original, const Graph& rewritten, const TensorSet& inputs,
                                           const RunOptions& options, double seconds, const Job& job) {
  auto slow = Program::build(original, options);
  if (!slow) return slow.error();
  auto fast = Program::build(rewritten, options);
  if (!fast) return fast.error();
  auto t = timePaired(*slow, *fast, inputs, seconds, job);
  if (!t) return t.error();
  return AgainstOriginal{std::move(*t), "original (captured)", "rewritten (captured)", {}};
}

/// The file that `apply` would write, in a folder that goes again.
Result<AgainstOriginal> timeAsWritten(const Model& original, const Graph& rewritten, const TensorSet& inputs,
                                      const RunOptions& options, double seconds, const Job& job) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string path = folder->file("rewritten.pt");
  std::optional<Graph> originalCast, rewrittenCast;
  if (options.dtype) {
    auto a = inDType(original.graph, *options.dtype), b = inDType(rewritten, *options.dtype);
    if (!a) return a.error();
    if (!b) return b.error();
    originalCast = std::move(a->graph);
    rewrittenCast = std::move(b->graph);
  }
  const Graph& before = originalCast ? *originalCast : original.graph;
  const Graph& after = rewrittenCast ? *rewrittenCast : rewritten;
  if (Status s = exportModel(after, path); !s) return s.error();
  return timeWrittenFile({original, before, after, path, inputs, options, seconds}, job);
}

}  // namespace

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
  auto timing = options.device == "cpu"
                    ? timeAsWritten(*model, rewritten, *inputs, options, request.seconds, job)
                    : timeCapturedGraphs(model->graph, rewritten, *inputs, options, request.seconds, job);
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
