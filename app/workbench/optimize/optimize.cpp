#include "app/workbench/optimize/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "app/workbench/baselines/file_timing.h"
#include "app/workbench/optimize/advice.h"
#include "app/workbench/optimize/group_trials.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "app/workbench/optimize/trials.h"
#include "app/workbench/optimize/verified_plan.h"
#include "core/base/atomic_file.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/timing_turn.h"

namespace graft::workbench {
namespace {

/// What PyTorch's own freezing does. Where nothing faster is kept, the file is at least as fast as the frozen model.
constexpr std::string_view frozenRecipe = "Folded";

/// What is said of a model that stays as it is.
ApplyReport asItWas(ApplyReport of) {
  ApplyReport out;
  out.model = std::move(of.model);
  out.method = std::move(of.method);
  out.format = of.format;
  out.nodesBefore = out.nodesAfter = of.nodesBefore;
  out.randomInputs = std::move(of.randomInputs);
  out.unchanged = true;
  return out;
}

/// For timing algorithms of the written file's products, before it is timed: at first, and where it seems slower while
/// some of them are guesses. The latter is what a first run of the file may take by itself.
constexpr double fileTuningSeconds = 3, firstRunTuningSeconds = 10;

/// From a plan to the file.
struct Finisher {
  const OptimizeRequest& request;
  const Prepared& prepared;
  const NamedRun& original;
  Trials& trials;
  OptimizeReport& report;
  const Semantics& semantics;
  std::function<void(OptimizeStage)> reached;
  const Job& job;

  /// Whether fewer than so many budgets are over. What takes seconds is not worth less than that.
  bool goesOn(double budgets) const {
    return trials.seconds() < std::max(budgets * request.budget, VerifyOn().furtherSeconds);
  }

  /// Verifies the plan, writes the file, times it beside the original, and publishes it. Why nothing was written; "":
  /// it was. `mayBeAsFast`: the file need not be faster than the original.
  Result<std::string> write(Plan plan, bool mayBeAsFast) const {
    ApplyReport& result = report.result;
    VerifiedPlan verified(prepared, request, trials, report, semantics, job);
    auto run = verified.run(plan);
    if (!run) return run.error();
    if (result.unchanged)
      return std::string(isAnySlow(report) ? "its generated kernels are slower than the operators that they replace"
                                           : "verification took back all rewrites");
    if (result.refusal) {
      const std::string why = result.verification->why;
      auto fewer = verified.withoutWrongSteps(plan, std::move(*run));
      if (!fewer) return fewer.error();
      if (!*fewer) return "the whole model then computes something else: " + why;
      run = std::move(**fewer);
    }
    if (request.strict)
      if (auto e = uncompared(result)) return *e;
    reached(OptimizeStage::Rewritten);
    reached(OptimizeStage::Verified);
    auto staged =
        StagedModel::write(run->made.graph, request.output, *prepared.inputs, prepared.sizes, request.capture);
    if (!staged) return staged.error();
    if (request.seconds) {
      auto why = whySlow(run->made.graph, staged->path(), mayBeAsFast);
      if (!why) return why.error();
      reached(OptimizeStage::Timed);
      if (!why->empty()) return std::move(*why);
    }
    if (job.cancelled()) return stoppedTrying();
    auto written = staged->publish();
    if (!written) return written.error();
    result.output = std::move(*written);
    report.seconds = trials.seconds();
    keep(plan, std::move(run->made));
    reached(OptimizeStage::Written);
    return std::string();
  }

 private:
  /// Times the file beside the original. Why it is not kept; "": it is.
  Result<std::string> whySlow(const Graph& rewritten, const std::string& path, bool mayBeAsFast) const {
    FileTimingRequest how{prepared.model,   prepared.model.graph, rewritten, path,          *prepared.inputs,
                          trials.options(), *request.seconds,     &original, request.budget};
    // A file whose products are guesses looks slower than it is after its first run, which tunes them.
    limitTuning(fileTuningSeconds);
    auto speed = timeFile(how);
    if (speed && isSlower(*speed) && guessedProducts() > 0 && !job.cancelled()) {
      limitTuning(firstRunTuningSeconds);
      speed = timeFile(how);
    }
    // A second, longer look where the first one says neither, and twice the time gives more pairs.
    const auto secondsOf = [](const PairedTiming& t) { return t.repetitions * (t.a.medianMs + t.b.medianMs) / 1000; };
    if (speed && goesOn(2) && !mayBeAsFast && speed->ratio < 1 && !isSlower(*speed) &&
        secondsOf(report.result.timing->times) < 2 * how.seconds) {
      how.seconds *= 2;
      speed = timeFile(how);
    }
    if (!speed) return speed.error();
    // What freezing does is as fast as freezing: a few percent are the machine's, and the file as it was is no faster.
    constexpr double asFast = 0.95;
    if (mayBeAsFast ? speed->ratio < asFast : isSlower(*speed)) return std::string("the written file is slower");
    if (!mayBeAsFast && speed->ratio < 1) return std::string("the written file is not faster");
    return std::string();
  }

  void keep(const Plan& plan, Rewritten made) const {
    report.plan = {};
    for (const PlannedRecipe& p : plan) report.plan.recipes.push_back({p.file->path, p.recipe->name, p.dropped});
    report.plan.operators = takenBackCalls(report);
    made.verdicts = verdictsOf(
        made.steps, {prepared.inputs, !request.inputs.isGiven(), "", !prepared.model.format->declaresSizes, ""});
    made.milliseconds = report.seconds * 1000;
    report.rewritten = std::move(made);
  }
  Result<SpeedBeside> timeFile(const FileTimingRequest& how) const {
    auto timing = timeWrittenFile(how, job);
    if (!timing) return timing.error();
    report.result.timing = std::move(*timing);
    const PairedTiming& t = report.result.timing->times;
    return SpeedBeside{t.ratio, ratioRange(t.a.samplesMs, t.b.samplesMs)};
  }
};

/// On a GPU: the model as it is, to be run as CUDA graphs. Writes and publishes it where it is faster so than as the
/// TorchScript that it is; false where it is not, or cannot be.
Result<bool> writeCaptured(const OptimizeRequest& request, const Prepared& prepared, const RunOptions& options,
                           ApplyReport& result, const Job& job) {
  const Graph& graph = prepared.model.graph;
  if (!options.device.starts_with("cuda") || !request.capture || request.output.ends_with(".pt2") ||
      !captureObstacle(graph, true).empty())
    return false;
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string plain = folder->file("original.pt");
  if (!exportModel(graph, plain)) return false;
  auto staged = StagedModel::write(graph, request.output, *prepared.inputs, prepared.sizes, true, true);
  if (!staged) return false;
  auto before = loadedTorchScript(plain, *prepared.inputs, options);
  auto after = loadedTorchScript(staged->path(), *prepared.inputs, options);
  if (!before || !after || !(*before)() || !(*after)()) return false;
  auto times = timePaired(*before, *after, request.seconds.value_or(0), job, options.device);
  if (job.cancelled()) return stoppedTrying();
  if (!times) return false;
  if (!isFaster({times->ratio, ratioRange(times->a.samplesMs, times->b.samplesMs)})) return false;
  auto written = staged->publish();
  if (!written) return written.error();
  result.output = std::move(*written);
  result.timing = AgainstOriginal{std::move(*times), "original (TorchScript)", "written file (as CUDA graphs)", {}};
  return true;
}

Error cannotRun(const ApplyReport& r) {
  std::vector<std::string> names;
  for (const MissingOperator& m : r.missing) names.push_back(m.name);
  return badInput(
      fmt::format("{}: {}. `graft optimize` has to run a model; `graft apply` rewrites it without running it", r.model,
                  missingOperatorsText(names)));
}

}  // namespace

Result<OptimizeReport> optimize(const OptimizeRequest& request, const Semantics& semantics,
                                const OnOptimizeStage& onStage, const Job& job) {
  OptimizeReport report;
  ApplyReport& result = report.result;
  const OwnTime spent;
  const auto reached = [&](OptimizeStage stage) {
    report.stages.emplace_back(stage, spent.seconds());
    if (onStage) onStage(stage, report);
  };
  if (auto probe = AtomicFile::beside(request.output); !probe) return probe.error();
  if (auto format = exportFormat(request.output); !format) return format.error();
  auto shipped = loadShippedRules(semantics.operators());
  if (!shipped) return shipped.error();
  for (RuleFile& file : *shipped)
    for (Recipe& recipe : file.recipes) {
      if (!request.fusion.empty() && hasStep(recipe, "fuse"))
        if (Status s = steerFusion(recipe, request.fusion); !s) return s.error();
      planForDevice(recipe, request.inputs.device);
    }
  auto prepared = prepare(request.model, request.inputs, Needs::Inputs, result, semantics, job);
  if (!prepared) return prepared.error();
  if (!result.missing.empty()) return cannotRun(result);
  if (request.graph) prepared->model.graph = *request.graph;
  const Model& model = prepared->model;
  const TensorSet& inputs = *prepared->inputs;
  result.nodesBefore = result.nodesAfter = model.graph.nodeCount();
  reached(OptimizeStage::Inputs);
  if (Status s = recordTypes(*prepared, result, semantics); !s) return s.error();
  Trials trials(*prepared, request, semantics, job);
  // Nothing is kept after all.
  const auto nothing = [&](const std::string& why) -> Result<OptimizeReport> {
    trials.finish();
    report.whyUnchanged = why;
    for (TriedRecipe& r : report.recipes) {
      if (r.isKept) r.why = why;
      r.isKept = false;
    }
    report.rules.clear();
    report.groups.clear();
    report.rejected = std::move(result.timing);
    result = asItWas(std::move(result));
    // Where recipes fit, the rule that comes nearest would be no help.
    const bool noneFits = report.recipes.empty();
    // To say what the time goes into, the model runs a few more times.
    report.advice = adviceFor(model, trials.isOver(2) ? nullptr : &inputs, trials.options(),
                              noneFits ? *shipped : std::vector<RuleFile>(), semantics.operators(), job);
    if (job.cancelled()) return stoppedTrying();
    auto captured = writeCaptured(request, *prepared, trials.options(), result, job);
    if (!captured) return captured.error();
    if (!*captured && request.allowUnchanged) {
      auto copied = copyModel(request.model, model.graph, request.output);
      if (!copied) return copied.error();
      result.output = std::move(*copied);
    }
    report.seconds = trials.seconds();
    reached(OptimizeStage::Written);
    return report;
  };

  std::vector<RecipeFit> fits = fittingRecipes(model.graph, *shipped, semantics, job);
  if (job.cancelled()) return stoppedTrying();
  if (fits.empty()) {
    reached(OptimizeStage::Recipes);
    return nothing("none of the recipes that come with Graft fits it");
  }
  auto original = runOfOriginal(model, model.graph, inputs, trials.options(), job);
  if (!original) return original.error();
  report.beside = original->name;
  trials.shareAmong(3 * fits.size());
  auto best = bestRecipe(trials, fits, original->run, report, job);
  if (!best) return best.error();
  if (!*best) {
    trials.finish();
    reached(OptimizeStage::Recipes);
    return nothing("none of the recipes that fit it runs as TorchScript here");
  }
  Variant current = std::move(**best);
  if (Status s = addRecipes(trials, fits, current, report, job); !s) return s.error();
  trials.finish();
  reached(OptimizeStage::Recipes);
  auto rules = dropRules(trials, current, "", report, job);
  if (!rules) return rules.error();
  std::move(rules->begin(), rules->end(), std::back_inserter(report.rules));
  trials.finish();
  reached(OptimizeStage::Rules);
  const Plan plan = current.plan;
  current.run = {};  // its memory is the final model's
  Finisher finisher{request, *prepared, *original, trials, report, semantics, reached, job};
  auto why = finisher.write(plan, false);
  if (!why) return why.error();
  if (why->empty()) return report;
  const std::optional<AgainstOriginal> times = report.result.timing;
  const auto folded =
      std::find_if(fits.begin(), fits.end(), [](const RecipeFit& f) { return f.recipe->name == frozenRecipe; });
  if (folded == fits.end() || (plan.size() == 1 && plan.front().recipe == folded->recipe)) return nothing(*why);
  // Without it the user would be left with the model as it is, which is slower than what freezing makes of it.
  if (!finisher.goesOn(3))
    return nothing(
        fmt::format("{}, and {} was not tried in its place: the time was over (--budget)", *why, frozenRecipe));
  for (TriedRecipe& r : report.recipes) {
    if (r.isKept) r.why = *why;
    r.isKept = false;
  }
  report.rules.clear();
  TriedRecipe& row = report.recipes[static_cast<size_t>(folded - fits.begin())];
  row.isKept = true;
  row.why.clear();
  report.instead = nameOf(plan) + " is not kept: " + *why;
  auto again = finisher.write({{folded->file, folded->recipe, {}}}, true);
  if (!again) return again.error();
  if (again->empty()) return report;
  // What is said is of the first file.
  report.instead.clear();
  report.result.timing = times;
  return nothing(*why);
}

Result<Rewritten> optimizeAgain(Graph graph, const OptimizedPlan& plan, const VerifyOn& on, const Semantics& semantics,
                                const Job& job, std::optional<size_t> upTo) {
  auto shipped = loadShippedRules(semantics.operators());
  if (!shipped) return shipped.error();
  Plan found;
  for (const OptimizedPlan::Part& part : plan.recipes) {
    // The same file may lie elsewhere: another version was installed, or another machine goes on.
    const auto isNamed = [&](const RuleFile& f) {
      return std::filesystem::path(f.path).filename() == std::filesystem::path(part.file).filename();
    };
    const auto file = std::find_if(shipped->begin(), shipped->end(), isNamed);
    const Recipe* recipe = file == shipped->end() ? nullptr : file->findRecipe(part.recipe);
    if (!recipe) return badInput(fmt::format("{}: no such recipe comes with this Graft: {}", part.file, part.recipe));
    found.push_back({&*file, recipe, part.without});
  }
  auto run = runPlan(std::move(graph), found, {on, true, upTo}, semantics, job);
  if (!run) return run.error();
  // Of the first steps alone, some calls are not there yet.
  std::vector<std::string> calls;
  for (const std::string& call : plan.operators)
    if (!upTo || run->made.graph.findNode(call)) calls.push_back(call);
  if (Status s = restoreOperators(run->made.graph, calls, semantics); !s) return s.error();
  if (Status s = run->finish(calls, semantics); !s) return s.error();
  run->made.verdicts = verdictsOf(run->made.steps, on);
  return std::move(run->made);
}

}  // namespace graft::workbench
