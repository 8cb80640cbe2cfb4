#include "app/workbench/optimize/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "app/workbench/baselines/file_timing.h"
#include "app/workbench/optimize/advice.h"
#include "app/workbench/optimize/group_trials.h"
#include "app/workbench/optimize/plan_run.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "app/workbench/optimize/trials.h"
#include "core/base/atomic_file.h"
#include "core/base/halving.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/timing_turn.h"

namespace graft::workbench {
namespace {

/// What PyTorch's own freezing does. Where nothing faster is kept, the file is at least as fast as the frozen model.
constexpr std::string_view frozenRecipe = "Folded";

bool isAnySlow(const OptimizeReport& report) {
  return std::any_of(report.groups.begin(), report.groups.end(),
                     [](const TriedGroup& t) { return !t.isKept && !t.isWrong; });
}

/// For further inputs of the rewrites, for those of the whole, and for leaving out rules, each.
double furtherSeconds(const OptimizeRequest& request) {
  return std::min(request.budget / 2, VerifyOn().furtherSeconds);
}

/// The plan once more, each rewrite verified on its own.
Result<PlanRun> rewriteVerified(const Prepared& before, const OptimizeRequest& request, const Plan& plan,
                                ApplyReport& result, const Semantics& semantics, const Job& job) {
  const VerifyOn on{before.inputs,          !request.inputs.isGiven(), "", !before.model.format->declaresSizes, "",
                    furtherSeconds(request)};
  // The states between are looked at where the whole computes something else.
  auto run = runPlan(before.model.graph, plan, {on, true, {}}, semantics, job);
  if (job.cancelled()) return stoppedTrying();
  if (!run) return run.error();
  result.recipe = run->made.label;
  result.nodesBefore = run->made.nodesBefore;
  result.nodesAfter = run->made.graph.nodeCount();
  result.steps = run->made.steps;
  result.unchanged = rewroteNothing(result.steps);
  return run;
}

std::vector<std::string> takenBackCalls(const OptimizeReport& report) {
  std::vector<std::string> out;
  for (const TriedGroup& t : report.groups)
    if (!t.isKept) out.push_back(t.node);
  return out;
}

/// Where the whole computes something else with generated kernels and not with their operators, though each kernel
/// passes alone: kernels are added to the operators in halves, and those that it fails with become operators again.
/// Those that are slower than their operators stay out.
class KernelSearch {
 public:
  /// `all`: the graph with all kernels of report.groups, of which the slower ones are not kept.
  KernelSearch(const Prepared& before, const OptimizeRequest& request, const Graph& all, OptimizeReport& report,
               const Semantics& semantics, const Job& job)
      : before_(before), request_(request), all_(all), report_(report), semantics_(semantics), job_(job) {}

  /// The graph that passes, with report.result and report.groups to match; nothing, and these as they were, where the
  /// kernels are not to blame.
  Result<std::optional<Graph>> run() {
    if (!passes({})) return error_ ? Result<std::optional<Graph>>(*error_) : std::optional<Graph>();
    std::vector<size_t> order;
    for (size_t i = 0; i < report_.groups.size(); ++i)
      if (report_.groups[i].isKept) order.push_back(i);
    const Kept kept = keptInHalves(order, furtherSeconds(request_),
                                   [&](const std::vector<size_t>& numbers) { return !error_ && passes(numbers); });
    if (error_) return *error_;
    const auto holds = [](const std::vector<size_t>& in, size_t i) { return std::ranges::find(in, i) != in.end(); };
    const std::string& why = report_.result.verification->why;
    for (const size_t i : order) {
      TriedGroup& t = report_.groups[i];
      t.isKept = holds(kept.numbers, i);
      t.isWrong = !t.isKept;
      if (holds(kept.untried, i))
        t.why = "the time for finding out which kernels are to blame was over; with all of them, " + why;
      else if (t.isWrong)
        t.why = "with it, the whole model computes something else: " + why;
    }
    report_.isOutOfTime = report_.isOutOfTime || !kept.isComplete();
    report_.result = std::move(result_);
    return std::optional<Graph>(std::move(best_));
  }

 private:
  const Prepared& before_;
  const OptimizeRequest& request_;
  const Graph& all_;
  OptimizeReport& report_;
  const Semantics& semantics_;
  const Job& job_;
  Graph best_;          // the last that passed
  ApplyReport result_;  // its
  std::optional<Error> error_;

  /// Whether the whole passes with these kernels alone.
  bool passes(const std::vector<size_t>& kernels) {
    std::vector<std::string> calls;
    for (size_t i = 0; i < report_.groups.size(); ++i)
      if (std::ranges::find(kernels, i) == kernels.end()) calls.push_back(report_.groups[i].node);
    Graph graph = all_;
    ApplyReport result = report_.result;
    Status s = restoreOperators(graph, calls, semantics_);
    if (s) s = verifyWhole(before_, graph, result, job_, {furtherSeconds(request_), false});
    if (!s) error_ = s.error();
    if (job_.cancelled()) error_ = stoppedTrying();
    if (error_ || result.refusal) return false;
    best_ = std::move(graph);
    result_ = std::move(result);
    return true;
  }
};

/// The plan verified, and without the generated kernels that are slower than their operators on these inputs. Where the
/// whole then computes something else, with them: operators may be less exact than the kernels that take their place.
/// Where it does so still, without those kernels that are to blame. The whole is verified where anything was rewritten,
/// and the report says how that went.
Result<PlanRun> rewriteTimed(const Prepared& before, const OptimizeRequest& request, const Plan& plan, Trials& trials,
                             OptimizeReport& report, const Semantics& semantics, const Job& job) {
  report.groups.clear();
  auto run = rewriteVerified(before, request, plan, report.result, semantics, job);
  if (!run) return run.error();
  Graph& graph = run->made.graph;
  Graph all = graph;
  auto groups = trials.tryKernels(graph);
  if (job.cancelled()) return stoppedTrying();
  if (!groups) return groups.error();
  report.groups = std::move(*groups);
  const FurtherInputs further{furtherSeconds(request), false};
  if (Status s = verifyWhole(before, graph, report.result, job, further); !s) return s.error();
  const std::vector<TriedGroup> timed = report.groups;
  if (report.result.refusal && isAnySlow(report)) {
    graph = all;
    for (TriedGroup& t : report.groups) {
      if (!t.isKept) t.why += ", and kept: with its operators the whole model computes something else";
      t.isKept = true;
    }
    if (Status s = verifyWhole(before, graph, report.result, job, further); !s) return s.error();
  }
  if (report.result.refusal && !report.groups.empty() && !job.cancelled()) {
    report.groups = timed;
    auto right = KernelSearch(before, request, all, report, semantics, job).run();
    if (!right) return right.error();
    if (*right) graph = std::move(**right);
  }
  if (report.result.refusal) return run;  // nobody goes through the steps of a model that is not kept
  run->keepsStates = request.keepSubSteps;
  if (Status s = run->finish(takenBackCalls(report), semantics); !s) return s.error();
  report.result.steps = run->made.steps;
  report.result.nodesAfter = graph.nodeCount();
  report.result.unchanged = rewroteNothing(report.result.steps);
  return run;
}

/// A step of one of the plan's recipes.
struct PlanStep {
  std::string recipe, name;
};
/// The step at that place of all recipes' steps together.
PlanStep stepAt(const Plan& plan, size_t place) {
  for (const PlannedRecipe& p : plan) {
    const Recipe recipe = without(*p.recipe, p.dropped);
    if (place < recipe.steps.size()) return {recipe.name, recipe.steps[place].name};
    place -= recipe.steps.size();
  }
  return {};
}

/// The first step after which the whole model computes something else. Halving finds it. Of steps whose states are too
/// large to keep, the last one that changed something; nothing where none did.
Result<std::optional<PlanStep>> firstWrongStep(const Prepared& before, const OptimizeRequest& request, const Plan& plan,
                                               const PlanRun& run, const ApplyReport& refused, const Job& job) {
  if (run.isTooLarge) {
    for (size_t i = run.made.steps.size(); i-- > 0;)
      if (!run.made.steps[i].records.empty()) return std::optional(stepAt(plan, i));
    return std::optional<PlanStep>();
  }
  std::vector<size_t> steps;  // that changed something
  for (size_t i = 0; i < run.states.size(); ++i)
    if (run.states[i]) steps.push_back(i);
  if (steps.empty()) return std::optional<PlanStep>();
  size_t right = 0, wrong = steps.size() - 1;  // the first wrong one is among these
  while (right < wrong) {
    const size_t middle = (right + wrong) / 2;
    ApplyReport of = refused;
    of.refusal.reset();
    const Status s = verifyWhole(before, *run.states[steps[middle]], of, job, {furtherSeconds(request), false});
    if (job.cancelled()) return stoppedTrying();
    if (!s) return s.error();
    (of.refusal ? wrong : right) = of.refusal ? middle : middle + 1;
  }
  return std::optional(stepAt(plan, steps[wrong]));
}

/// Where the whole fails though each rewrite passes: the steps behind which it does are left out, one after another, as
/// far as the time for it reaches.
Result<std::optional<PlanRun>> withoutWrongSteps(const Prepared& before, const OptimizeRequest& request, Plan& plan,
                                                 PlanRun run, Trials& trials, OptimizeReport& report,
                                                 const Semantics& semantics, const Job& job) {
  const double start = trials.seconds();
  while (trials.seconds() <= start + furtherSeconds(request)) {
    auto wrong = firstWrongStep(before, request, plan, run, report.result, job);
    if (!wrong) return wrong.error();
    if (!*wrong) break;
    const PlanStep step = **wrong;
    const std::string why = "with it, the whole model computes something else: " + report.result.verification->why;
    plan = withoutRule(std::move(plan), step.recipe, step.name);
    auto row = std::ranges::find_if(report.rules,
                                    [&](const TriedRule& r) { return r.recipe == step.recipe && r.rule == step.name; });
    if (row == report.rules.end()) row = report.rules.insert(row, {step.recipe, step.name, 0, {}, true, true, {}});
    row->isKept = false;
    row->isWrong = true;
    row->why = why;
    auto fewer = rewriteTimed(before, request, plan, trials, report, semantics, job);
    if (!fewer) return fewer.error();
    if (report.result.unchanged) break;
    if (!report.result.refusal) return std::optional<PlanRun>(std::move(*fewer));
    run = std::move(*fewer);
  }
  return std::optional<PlanRun>();
}

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
    auto run = rewriteTimed(prepared, request, plan, trials, report, semantics, job);
    if (!run) return run.error();
    if (result.unchanged)
      return std::string(isAnySlow(report) ? "its generated kernels are slower than the operators that they replace"
                                           : "verification took back all rewrites");
    if (result.refusal) {
      const std::string why = result.verification->why;
      auto fewer = withoutWrongSteps(prepared, request, plan, std::move(*run), trials, report, semantics, job);
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
