#include "app/workbench/optimize/optimize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "app/workbench/baselines/file_timing.h"
#include "app/workbench/optimize/advice.h"
#include "app/workbench/optimize/group_trials.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "core/base/atomic_file.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"
#include "core/torch/cuda_runner.h"
#include "matcher/passes/passes.h"
#include "matcher/search/search.h"

namespace graft::workbench {
namespace {

using Clock = std::chrono::steady_clock;

/// One recipe of a plan, and which of its rules are left out.
struct PlannedRecipe {
  const RuleFile* file;
  const Recipe* recipe;
  std::vector<std::string> dropped;
};
using Plan = std::vector<PlannedRecipe>;

/// "Encoder without Linear, then ConvNet".
std::string nameOf(const Plan& plan) {
  std::string out;
  for (const PlannedRecipe& p : plan)
    out += fmt::format("{}{}{}{}", out.empty() ? "" : ", then ", p.recipe->name, p.dropped.empty() ? "" : " without ",
                       fmt::join(p.dropped, ", "));
  return out;
}

/// The plan without a rule of one of its recipes, nor the same rule in its other recipes: they would rewrite what it
/// leaves. Or without a pass of one recipe.
Plan withoutRule(Plan plan, const std::string& recipe, const std::string& name) {
  const auto ruleOf = [&](const PlannedRecipe& p) { return p.file->findRule(name); };
  const Rule* rule = nullptr;
  for (const PlannedRecipe& p : plan)
    if (p.recipe->name == recipe && !rule) rule = ruleOf(p);
  for (PlannedRecipe& p : plan) {
    const Rule* same = ruleOf(p);
    const bool isPass = !rule && p.recipe->name == recipe;
    if (isPass || (rule && same && same->file == rule->file)) p.dropped.push_back(name);
  }
  return plan;
}

/// A plan as the file that it would write, loaded and ready to be timed.
struct Variant {
  Plan plan;
  Graph graph;
  std::vector<std::pair<std::string, StepRun>> rules;  ///< that rewrote something, with their recipes
  TemporaryFolder folder;
  Runnable run;
  size_t rewrites() const {
    size_t n = 0;
    for (const auto& [recipe, step] : rules) n += step.records.size();
    return n;
  }
};

class Trials {
 public:
  Trials(const Prepared& before, const OptimizeRequest& request, const Semantics& semantics, const Job& job)
      : before_(before),
        request_(request),
        semantics_(semantics),
        job_(job),
        options_{request.inputs.device, request.inputs.dtype},
        begin_(Clock::now()) {}

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  bool isOver() const { return seconds() > request_.budget; }
  const RunOptions& options() const { return options_; }

  /// Nothing is verified yet: that is done of what is kept.
  Result<Variant> build(const Plan& plan) const {
    auto folder = TemporaryFolder::inSystem();
    if (!folder) return folder.error();
    Variant out{plan, before_.model.graph, {}, std::move(*folder), {}};
    for (const PlannedRecipe& p : plan) {
      auto run = runRecipe(out.graph, *p.file, without(*p.recipe, p.dropped), semantics_);
      if (!run) return run.error();
      for (StepRun& s : run->steps)
        if (s.isRule && !s.records.empty()) out.rules.emplace_back(p.recipe->name, std::move(s));
    }
    const std::string path = out.folder.file("trial.pt");
    ExportOptions how;
    how.inputs = *before_.inputs;
    how.capture = request_.capture;
    if (Status s = exportModel(out.graph, path, how); !s) return s.error();
    auto run = loadedTorchScript(path, *before_.inputs, options_);
    if (!run) return run.error();
    out.run = std::move(*run);
    if (Status s = out.run(); !s) return s.error();
    return out;
  }

  /// How many times as fast `b` is.
  Result<SpeedBeside> time(const Runnable& a, const Runnable& b, const std::string& what) const {
    Job quiet;
    quiet.cancel = job_.cancel;
    const auto all = static_cast<size_t>(request_.budget * 1000);
    job_.report("trying " + what, std::min(static_cast<size_t>(seconds() * 1000), all), all);
    auto t = timePaired(a, b, trialSeconds_, quiet);
    if (!t) return t.error();
    return SpeedBeside{t->ratio, ratioRange(t->a.samplesMs, t->b.samplesMs)};
  }
  /// Clears what was reported.
  void finish() const { job_.report("trying", 1, 1); }

  /// So that this many trials take half of the budget, for building them takes time, too.
  void shareAmong(size_t trials) {
    const double left = std::max(0.0, request_.budget - seconds());
    trialSeconds_ = std::clamp(left / 2 / static_cast<double>(std::max<size_t>(trials, 1)), 0.2, 1.0);
  }

 private:
  const Prepared& before_;
  const OptimizeRequest& request_;
  const Semantics& semantics_;
  const Job& job_;
  RunOptions options_;
  Clock::time_point begin_;
  double trialSeconds_ = 1;
};

bool isSlower(const SpeedBeside& s) { return speedOf(s.ratio, s.range) == Speed::Slower; }
bool isFaster(const SpeedBeside& s) { return speedOf(s.ratio, s.range) == Speed::Faster; }
bool isCancelled(const Error& e) { return e.kind == ErrorKind::Cancelled; }
Error stoppedTrying() { return {ErrorKind::Cancelled, "interrupted; nothing was written", {}}; }
constexpr const char* overBudget = "not tried: the time for trying was over (--budget)";

/// Whether one does all that the other does, and so needs no trial of its own: rules are tried one by one later.
bool holds(const RecipeFit& all, const RecipeFit& some) {
  return std::all_of(some.rules.begin(), some.rules.end(), [&](const auto& rule) {
    return std::find(all.rules.begin(), all.rules.end(), rule) != all.rules.end();
  });
}

/// Each recipe that fits, on its own beside the original. The fastest, which may still be slower than the original: it
/// is tried without each of its rules later. Nothing where none runs.
Result<std::optional<Variant>> bestRecipe(Trials& trials, const std::vector<RecipeFit>& fits, const Runnable& original,
                                          OptimizeReport& report, const Job& job) {
  std::optional<Variant> best;
  size_t bestRow = 0;
  for (const RecipeFit& fit : fits) {
    if (job.cancelled()) return stoppedTrying();
    const size_t at = report.recipes.size();
    TriedRecipe& row = report.recipes.emplace_back();
    row.file = fit.file->path;
    row.recipe = fit.recipe->name;
    row.rewrites = fit.rewrites;
    row.nodesAfter = fit.nodesAfter;
    if (best && holds(fits[bestRow], fit)) {
      row.why = fmt::format("{} does the same and more", report.recipes[bestRow].recipe);
      continue;
    }
    if (at > 0 && trials.isOver()) {
      row.why = overBudget;
      report.isOutOfTime = true;
      continue;
    }
    auto variant = trials.build({{fit.file, fit.recipe, {}}});
    if (!variant) {
      row.why = "does not run as TorchScript: " + variant.error().message;
      continue;
    }
    auto speed = trials.time(original, variant->run, row.recipe);
    if (!speed) {
      if (isCancelled(speed.error())) return speed.error();
      row.why = "cannot be timed: " + speed.error().message;
      continue;
    }
    row.speed = *speed;
    if (best) {
      TriedRecipe& first = report.recipes[bestRow];
      bool isBetter = speed->ratio > first.speed->ratio;
      if (isBetter) {  // the two beside each other: each beside the original tells less
        auto direct = trials.time(best->run, variant->run, row.recipe + " beside " + first.recipe);
        if (!direct && isCancelled(direct.error())) return direct.error();
        isBetter = direct && isFaster(*direct);
      }
      if (!isBetter) {
        row.why = "not faster than " + first.recipe;
        continue;
      }
      first.isKept = false;
      first.why = row.recipe + " is faster";
    }
    row.isKept = true;
    best = std::move(*variant);
    bestRow = at;
  }
  return best;
}

/// Leaves out each rule of that recipe ("": of all) without which the exported model is faster. A row for each rule.
Result<std::vector<TriedRule>> dropRules(Trials& trials, Variant& current, const std::string& ofRecipe,
                                         OptimizeReport& report, const Job& job) {
  std::vector<TriedRule> rows;
  for (const auto& [recipe, step] : current.rules)
    if (ofRecipe.empty() || recipe == ofRecipe) rows.push_back({recipe, step.name, step.records.size(), {}, true, {}});
  trials.shareAmong(rows.size());
  for (TriedRule& row : rows) {
    if (job.cancelled()) return stoppedTrying();
    if (trials.isOver()) {
      row.why = overBudget;
      report.isOutOfTime = true;
      continue;
    }
    auto variant = trials.build(withoutRule(current.plan, row.recipe, row.rule));
    if (!variant) continue;  // the recipe needs it
    if (variant->rules.empty()) {
      row.why = "it is the only one";
      continue;
    }
    auto speed = trials.time(current.run, variant->run, "without " + row.rule);
    if (!speed) {
      if (isCancelled(speed.error())) return speed.error();
      continue;
    }
    row.speed = *speed;
    if (!isFaster(*speed)) continue;
    row.isKept = false;
    row.why = "the model is faster without it";
    current = std::move(*variant);
  }
  return rows;
}

bool hasStep(const Recipe& recipe, std::string_view name) {
  return std::any_of(recipe.steps.begin(), recipe.steps.end(), [&](const Step& s) { return s.name == name; });
}

/// Whether a rule of the recipe still matches there, or a pass may find something.
bool addsRewrites(const RecipeFit& fit, const Graph& graph) {
  const Matcher matcher(graph);
  return std::any_of(fit.recipe->steps.begin(), fit.recipe->steps.end(), [&](const Step& s) {
    const Rule* rule = fit.file->findRule(s.name);
    if (!rule) {
      const Pass* pass = findPass(s.name);
      return pass && pass->checksEdits;
    }
    return rule->replacement && !matcher.findAll(*rule).matches.empty();
  });
}

/// The others once more, behind the one that is kept: a model may hold convolutions and attention. One that makes the
/// model no faster as it is may do so without some of its rules.
Status addRecipes(Trials& trials, const std::vector<RecipeFit>& fits, Variant& current, OptimizeReport& report,
                  const Job& job) {
  for (size_t i = 0; i < fits.size(); ++i) {
    TriedRecipe& row = report.recipes[i];
    if (row.isKept || !row.speed) continue;
    if (job.cancelled()) return stoppedTrying();
    if (trials.isOver()) {
      report.isOutOfTime = true;
      continue;
    }
    if (!addsRewrites(fits[i], current.graph)) continue;
    Plan plan = current.plan;
    plan.push_back({fits[i].file, fits[i].recipe, {}});
    auto variant = trials.build(plan);
    if (!variant || variant->rewrites() <= current.rewrites()) continue;
    const std::string what = row.recipe + " behind " + nameOf(current.plan);
    auto speed = trials.time(current.run, variant->run, what);
    std::vector<TriedRule> without;
    if (speed && !isFaster(*speed)) {
      auto rows = dropRules(trials, *variant, row.recipe, report, job);
      if (!rows) return rows.error();
      std::copy_if(rows->begin(), rows->end(), std::back_inserter(without),
                   [](const TriedRule& r) { return !r.isKept; });
      if (!without.empty()) speed = trials.time(current.run, variant->run, what);
    }
    if (!speed) {
      if (isCancelled(speed.error())) return speed.error();
      continue;
    }
    if (!isFaster(*speed) || variant->rewrites() <= current.rewrites()) continue;
    row.isKept = true;
    row.why.clear();
    row.behind = nameOf(current.plan);
    row.speed = *speed;
    std::move(without.begin(), without.end(), std::back_inserter(report.rules));
    current = std::move(*variant);
  }
  return done();
}

/// The plan once more, each rewrite verified on its own.
Result<Graph> rewriteVerified(const Prepared& before, const OptimizeRequest& request, const Plan& plan,
                              ApplyReport& result, const Semantics& semantics, const Job& job) {
  Graph graph = before.model.graph;
  result.recipe = nameOf(plan);
  result.nodesBefore = graph.nodeCount();
  result.steps.clear();
  for (const PlannedRecipe& p : plan) {
    RewriteRequest how;
    how.recipe = without(*p.recipe, p.dropped);
    how.verify = {before.inputs, !request.inputs.isGiven(), "", !before.model.format->declaresSizes, ""};
    auto rewritten = rewrite(std::move(graph), *p.file, how, semantics, job);
    if (job.cancelled()) return stoppedTrying();
    if (!rewritten) return rewritten.error();
    graph = std::move(rewritten->graph);
    for (StepRun& s : rewritten->steps) result.steps.push_back(std::move(s));
  }
  result.nodesAfter = graph.nodeCount();
  result.unchanged = rewroteNothing(result.steps);
  return graph;
}

/// The plan verified, and without the generated kernels that are slower than their operators on these inputs. Where the
/// whole then computes something else, with them: operators may be less exact than the kernels that take their place.
Result<Graph> rewriteTimed(const Prepared& before, const OptimizeRequest& request, const Plan& plan,
                           OptimizeReport& report, const Semantics& semantics, const Job& job) {
  constexpr double most = 10;  // seconds
  report.groups.clear();
  auto graph = rewriteVerified(before, request, plan, report.result, semantics, job);
  if (!graph) return graph.error();
  Graph all = *graph;
  auto groups = tryGroups(*graph, *before.inputs, {request.inputs.device, request.inputs.dtype},
                          std::min(most, request.budget / 4), semantics, job);
  if (job.cancelled()) return stoppedTrying();
  if (!groups) return groups.error();
  report.groups = std::move(*groups);
  const bool isAnySlow =
      std::any_of(report.groups.begin(), report.groups.end(), [](const TriedGroup& t) { return !t.isKept; });
  if (isAnySlow) {
    if (Status s = verifyWhole(before, *graph, report.result, job); !s) return s.error();
    if (report.result.refusal) {
      graph = std::move(all);
      for (TriedGroup& t : report.groups) {
        if (!t.isKept) t.why += ", and kept: with its operators the whole model computes something else";
        t.isKept = true;
      }
    }
  }
  for (const TriedGroup& t : report.groups) {
    if (t.isKept) continue;
    for (StepRun& s : report.result.steps)
      std::erase_if(s.records, [&](const Record& r) {
        return std::find(r.addedNames.begin(), r.addedNames.end(), t.node) != r.addedNames.end();
      });
  }
  report.result.nodesAfter = graph->nodeCount();
  report.result.unchanged = rewroteNothing(report.result.steps);
  return graph;
}

/// Where the whole fails though each rewrite passes: the first rule without which it passes is left out.
Result<std::optional<Graph>> withoutOneRule(const Prepared& before, const OptimizeRequest& request, Plan& plan,
                                            OptimizeReport& report, const Semantics& semantics, const Job& job) {
  for (auto row = report.rules.rbegin(); row != report.rules.rend(); ++row) {
    if (!row->isKept) continue;
    Plan fewer = withoutRule(plan, row->recipe, row->rule);
    auto graph = rewriteTimed(before, request, fewer, report, semantics, job);
    if (!graph) return graph.error();
    if (report.result.unchanged) continue;
    if (Status s = verifyWhole(before, *graph, report.result, job); !s) return s.error();
    if (report.result.refusal) continue;
    row->isKept = false;
    row->why = "with it, the whole model computes something else";
    plan = std::move(fewer);
    return std::optional<Graph>(std::move(*graph));
  }
  return std::optional<Graph>();
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
  const auto reached = [&](OptimizeStage stage) {
    if (onStage) onStage(stage, report);
  };
  if (auto probe = AtomicFile::beside(request.output); !probe) return probe.error();
  if (auto format = exportFormat(request.output); !format) return format.error();
  auto shipped = loadShippedRules(semantics.operators());
  if (!shipped) return shipped.error();
  if (!request.fusion.empty())
    for (RuleFile& file : *shipped)
      for (Recipe& recipe : file.recipes)
        if (hasStep(recipe, "fuse"))
          if (Status s = steerFusion(recipe, request.fusion); !s) return s.error();
  auto prepared = prepare(request.model, request.inputs, true, result, semantics, job);
  if (!prepared) return prepared.error();
  if (!result.missing.empty()) return cannotRun(result);
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
    result = asItWas(std::move(result));
    // Where recipes fit, the rule that comes nearest would be no help.
    const bool noneFits = report.recipes.empty();
    report.advice = adviceFor(model, &inputs, trials.options(), noneFits ? *shipped : std::vector<RuleFile>(),
                              semantics.operators(), job);
    if (job.cancelled()) return stoppedTrying();
    if (request.allowUnchanged) {
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
  limitTuning(3);  // as for apply: whoever asked waits for it
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
  Plan plan = current.plan;
  current.run = {};  // its memory is the final model's

  auto graph = rewriteTimed(*prepared, request, plan, report, semantics, job);
  if (!graph) return graph.error();
  const bool isAnySlow =
      std::any_of(report.groups.begin(), report.groups.end(), [](const TriedGroup& t) { return !t.isKept; });
  if (result.unchanged)
    return nothing(isAnySlow ? "its generated kernels are slower than the operators that they replace"
                             : "verification took back all rewrites");
  if (Status s = verifyWhole(*prepared, *graph, result, job); !s) return s.error();
  if (result.refusal) {
    const std::string why = result.verification->why;
    auto fewer = withoutOneRule(*prepared, request, plan, report, semantics, job);
    if (!fewer) return fewer.error();
    if (!*fewer) return nothing("the whole model then computes something else: " + why);
    graph = std::move(**fewer);
  }
  reached(OptimizeStage::Rewritten);
  reached(OptimizeStage::Verified);
  auto staged = StagedModel::write(*graph, request.output, inputs, prepared->sizes, request.capture);
  if (!staged) return staged.error();
  auto timing =
      timeWrittenFile({model, model.graph, *graph, staged->path(), inputs, trials.options(), request.seconds}, job);
  if (!timing) return timing.error();
  result.timing = std::move(*timing);
  reached(OptimizeStage::Timed);
  const PairedTiming& t = result.timing->times;
  if (isSlower({t.ratio, ratioRange(t.a.samplesMs, t.b.samplesMs)})) return nothing("the written file is slower");
  if (job.cancelled()) return stoppedTrying();
  auto written = staged->publish();
  if (!written) return written.error();
  result.output = std::move(*written);
  report.seconds = trials.seconds();
  reached(OptimizeStage::Written);
  return report;
}

}  // namespace graft::workbench
