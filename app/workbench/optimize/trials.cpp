#include "app/workbench/optimize/trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/formats/export.h"
#include "core/torch/cuda_runner.h"
#include "matcher/passes/passes.h"
#include "matcher/search/search.h"

namespace graft::workbench {
namespace {

/// Most seconds for timing kernels, and most of the budget.
constexpr double mostGroupSeconds = 10, groupShare = 0.25;
/// Most seconds for timing algorithms of products and convolutions, for each plan: what a plan is found to take must
/// not depend on how many came before it. And most of the budget.
constexpr double mostTuningSeconds = 3, tuningShare = 0.1;

bool isCancelled(const Error& e) { return e.kind == ErrorKind::Cancelled; }
constexpr const char* overBudget = "not tried: the time for trying was over (--budget)";

/// Of the budget, for the recipes alone: behind the best of them others are tried, and it without each of its rules.
constexpr double aloneShare = 0.5;

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

}  // namespace

std::string nameOf(const Plan& plan) {
  std::string out;
  for (const PlannedRecipe& p : plan)
    out += fmt::format("{}{}{}{}", out.empty() ? "" : ", then ", p.recipe->name, p.dropped.empty() ? "" : " without ",
                       fmt::join(p.dropped, ", "));
  return out;
}

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

size_t Variant::rewrites() const {
  size_t n = 0;
  for (const auto& [recipe, step] : rules) n += step.records.size();
  return n;
}

Trials::Trials(const Prepared& before, const OptimizeRequest& request, const Semantics& semantics, const Job& job)
    : before_(before),
      request_(request),
      semantics_(semantics),
      job_(job),
      options_{request.inputs.device, request.inputs.dtype} {}

Result<Variant> Trials::build(const Plan& plan) {
  tell("writing " + nameOf(plan));
  const double start = seconds(), kernelsBefore = groupSeconds_;
  limitTuning(std::min(mostTuningSeconds, request_.budget * tuningShare));
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  Variant out{plan, before_.model.graph, {}, std::move(*folder), {}};
  for (const PlannedRecipe& p : plan) {
    auto run = runRecipe(out.graph, *p.file, without(*p.recipe, p.dropped), semantics_);
    if (!run) return run.error();
    for (StepRun& s : run->steps)
      if (s.isRule && !s.records.empty()) out.rules.emplace_back(p.recipe->name, std::move(s));
  }
  if (auto kernels = tryKernels(out.graph); !kernels) return kernels.error();
  const std::string path = out.folder.file("trial.pt");
  ExportOptions how;
  how.inputs = *before_.inputs;
  how.capture = request_.capture;
  if (Status s = exportModel(out.graph, path, how); !s) return s.error();
  auto run = loadedTorchScript(path, *before_.inputs, options_);
  if (!run) return run.error();
  out.run = std::move(*run);
  if (Status s = out.run(); !s) return s.error();
  buildSeconds_ = seconds() - start - (groupSeconds_ - kernelsBefore);
  return out;
}

void Trials::tell(const std::string& what) const {
  const auto all = static_cast<size_t>(request_.budget * 1000);
  job_.report(what, std::min(static_cast<size_t>(seconds() * 1000), all), all);
}

Result<std::vector<TriedGroup>> Trials::tryKernels(Graph& graph) {
  const double left = std::min(mostGroupSeconds, request_.budget * groupShare) - groupSeconds_;
  const double before = seconds();
  auto out = tryGroups(graph, *before_.inputs, options_, std::max(0.0, left), knownGroups_, semantics_, job_);
  groupSeconds_ += seconds() - before;
  return out;
}

Result<SpeedBeside> Trials::time(const Runnable& a, const Runnable& b, const std::string& what) const {
  Job quiet;
  quiet.cancel = job_.cancel;
  tell("trying " + what);
  auto t = timePaired(a, b, trialSeconds_, quiet, request_.inputs.device);
  if (!t) return t.error();
  return SpeedBeside{t->ratio, ratioRange(t->a.samplesMs, t->b.samplesMs)};
}

void Trials::shareAmong(size_t trials) {
  const double left = std::max(0.0, request_.budget - seconds());
  trialSeconds_ = std::clamp(left / 2 / static_cast<double>(std::max<size_t>(trials, 1)), 0.2, 1.0);
}

bool isSlower(const SpeedBeside& s) { return speedOf(s.ratio, s.range) == Speed::Slower; }
bool isFaster(const SpeedBeside& s) { return speedOf(s.ratio, s.range) == Speed::Faster; }
Error stoppedTrying() { return {ErrorKind::Cancelled, "interrupted; nothing was written", {}}; }

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
    // Without one that runs there is nothing to go on from.
    if (at > 0 && (best ? !trials.hasTimeFor(original, aloneShare) : trials.isOver())) {
      row.why = overBudget;
      report.isOutOfTime = true;
      continue;
    }
    auto variant = trials.build({{fit.file, fit.recipe, {}}});
    if (!variant) {
      row.why = "does not run as TorchScript: " + variant.error().message;
      continue;
    }
    if (!trials.canTime(original, variant->run)) {
      report.isOutOfTime = true;
      row.isKept = !best;
      if (best) row.why = overBudget;
      if (!best) best = std::move(*variant);
      bestRow = row.isKept ? at : bestRow;
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
      bool isBetter = !first.speed || speed->ratio > first.speed->ratio;
      if (isBetter && !trials.canTime(best->run, variant->run)) {
        report.isOutOfTime = true;
        row.why = fmt::format("not timed beside {}: the time for trying was over (--budget)", first.recipe);
        continue;
      }
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

Result<std::vector<TriedRule>> dropRules(Trials& trials, Variant& current, const std::string& ofRecipe,
                                         OptimizeReport& report, const Job& job) {
  std::vector<TriedRule> rows;
  for (const auto& [recipe, step] : current.rules)
    if (ofRecipe.empty() || recipe == ofRecipe) rows.push_back({recipe, step.name, step.records.size(), {}, true, {}});
  trials.shareAmong(rows.size());
  for (TriedRule& row : rows) {
    if (job.cancelled()) return stoppedTrying();
    if (!trials.hasTimeFor(current.run)) {
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

Status addRecipes(Trials& trials, const std::vector<RecipeFit>& fits, Variant& current, OptimizeReport& report,
                  const Job& job) {
  std::vector<size_t> order(fits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return hasStep(*fits[i].recipe, "fuse"); });
  for (const size_t i : order) {
    TriedRecipe& row = report.recipes[i];
    // One that was not tried alone for want of time may still go behind another.
    if (row.isKept || !(row.speed || row.why == overBudget)) continue;
    if (job.cancelled()) return stoppedTrying();
    if (!trials.hasTimeFor(current.run)) {
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
      if (!without.empty() && trials.canTime(current.run, variant->run))
        speed = trials.time(current.run, variant->run, what);
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

}  // namespace graft::workbench
