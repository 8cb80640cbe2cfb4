#include "app/workbench/apply.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>

#include "core/base/atomic_file.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/rewrite_verification.h"
#include "matcher/rewrite/rewrite.h"
#include "matcher/search/search.h"

namespace graft::workbench {
namespace {

using Verdict = RewriteVerification::Verdict;

Error interrupted() { return {ErrorKind::Cancelled, "interrupted; nothing was written", {}}; }

/// The rewrites of a rule, or of some of its matches, as the one step that they are.
Result<StepRun> runRule(Graph& g, const Rule& rule, const std::optional<std::vector<size_t>>& only,
                        const Semantics& semantics, const RewriteOptions& options) {
  if (!rule.replacement) return badInput(fmt::format("{} has no replacement: it only finds", rule.name));
  StepRun out;
  out.name = rule.name;
  out.isRule = true;
  if (!only) {
    auto run = applyRule(g, rule, semantics, options);
    if (!run) return run.error();
    out.records = std::move(run->records);
    out.refused = std::move(run->refused);
    out.rolledBack = std::move(run->rolledBack);
    return out;
  }
  const SearchResult found = Matcher(g).findAll(rule);
  std::vector<Match> chosen;
  for (const size_t index : *only) {
    if (index >= found.matches.size()) return badInput(fmt::format("there is no match {}", index));
    chosen.push_back(found.matches[index]);
  }
  Rewriter rewriter(g, semantics, options.check);
  rewriter.prepare(chosen);
  for (Match& match : chosen) {
    auto record = rewriter.apply(rule, std::move(match));
    if (record)
      out.records.push_back(std::move(*record));
    else if (record.error().kind == ErrorKind::Verification)
      out.rolledBack.push_back(rewriter.rolledBack());
    else
      out.refused.push_back(record.error().message);
  }
  return out;
}

}  // namespace

Verdicts verdictsOf(const std::vector<StepRun>& steps, const VerifyOn& on) {
  Verdicts out;
  out.why = on.obstacle;
  const auto count = [&](const RewriteVerification& v) {
    out.verified += v.verdict == Verdict::Verified;
    out.measured += v.verdict == Verdict::Measured;
    out.unverified += v.verdict == Verdict::Unverified || v.verdict == Verdict::Unchecked;
    if (v.verdict == Verdict::Unverified && out.why.empty()) out.why = v.why;
  };
  for (const StepRun& step : steps) {
    out.rolledBack += step.rolledBack.size();
    if (!step.isRule && !step.records.empty()) count(step.verification);
    if (step.isRule)
      for (const Record& r : step.records) count(r.verification);
  }
  if (on.inputs && on.areRandom && out.unverified > 0)
    out.why = fmt::format("on random inputs, {}; example inputs may help", out.why);
  return out;
}

std::vector<Record> Rewritten::records() const {
  std::vector<Record> out;
  for (const StepRun& s : steps) out.insert(out.end(), s.records.begin(), s.records.end());
  return out;
}

std::vector<std::string> Rewritten::refused() const {
  std::vector<std::string> out;
  for (const StepRun& s : steps) out.insert(out.end(), s.refused.begin(), s.refused.end());
  return out;
}

std::vector<RolledBack> Rewritten::rolledBack() const {
  std::vector<RolledBack> out;
  for (const StepRun& s : steps) out.insert(out.end(), s.rolledBack.begin(), s.rolledBack.end());
  return out;
}

Result<Rewritten> rewrite(Graph graph, const RuleFile& file, const RewriteRequest& request, const Semantics& semantics,
                          const Job& job) {
  Rewritten out;
  out.nodesBefore = graph.nodeCount();
  out.isRecipe = request.recipe.has_value();
  out.label = out.isRecipe ? request.recipe->name : request.rule;
  const VerifyOn& on = request.verify;
  std::unique_ptr<RewriteCheck> check;
  if (on.inputs) check = makeRewriteCheck(*on.inputs, job, on.failingInputs, on.sizesAreOpen, on.furtherSeconds);
  if (request.selection) request.selection->ask(check.get());
  const RewriteOptions options{request.selection ? request.selection : check.get(), request.strict};
  const auto start = std::chrono::steady_clock::now();
  if (out.isRecipe) {
    const auto keep = [&](const StepRun& step, const Graph& now) {
      if (request.keepSubSteps) out.subSteps.add(step.records.size(), now);
    };
    auto run = runRecipe(graph, file, *request.recipe, semantics, keep, options);
    if (!run) return run.error();
    out.subSteps.finish();
    out.steps = std::move(run->steps);
  } else {
    auto rule = ruleNamed(file, request.rule);
    if (!rule) return rule.error();
    auto run = runRule(graph, **rule, request.only, semantics, options);
    if (!run) return run.error();
    out.steps.push_back(std::move(*run));
  }
  out.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped; nothing was changed", {}};
  out.verdicts = verdictsOf(out.steps, on);
  out.graph = std::move(graph);
  return out;
}

namespace {

constexpr double enoughForBisection = 20;  // seconds

struct Bisected {
  Rewritten rewritten;
  Verification verification;
  Bisection bisection;
};

/// The whole failed with the rewrites that `how.selection` has kept: the least part of them is taken back with which it
/// fails. Nothing where the whole passes with none of them, or where too few rewrites are left for the recipe.
std::optional<Bisected> bisect(const Graph& original, const RuleFile& file, const RewriteRequest& how,
                               const TensorSet& inputs, const std::string& why, const Semantics& semantics,
                               const Job& job) {
  RewriteSelection& selection = *how.selection;
  RewriteRequest again = how;
  again.verify = {};
  std::optional<Bisected> best;
  const auto passes = [&] {
    if (job.cancelled()) return false;
    auto rewritten = rewrite(original, file, again, semantics, job);
    if (!rewritten) return false;
    auto verification = verifyRewrite(original, rewritten->graph, inputs, job);
    if (!verification || !verification->passed) return false;
    best = Bisected{std::move(*rewritten), std::move(*verification), {}};
    return true;
  };
  const Kept kept =
      keepMost(selection, "with it, the model as a whole differs by more than it may", enoughForBisection, passes);
  if (!best || kept.numbers.empty()) return std::nullopt;
  best->bisection = {why, selection.made().size(), selection.made().size() - kept.numbers.size(), kept.runs,
                     kept.isComplete()};
  return best;
}

/// Says of a model that it was saved in training mode: its results are random, or change what it keeps. Captured
/// training steps are meant so.
std::optional<std::string> noteOfTrainingMode(const Model& model) {
  if (model.signature) return std::nullopt;
  size_t dropouts = 0, norms = 0;
  for (const NodeId id : model.graph.order()) {
    const Node& n = model.graph.node(id);
    const auto isOn = [&](const char* name) {
      const Argument* a = n.findArgument(name);
      return a && *a == Argument(true);
    };
    const Argument* share = n.findArgument("p");
    if (n.op->baseName().ends_with("dropout") && isOn("train") && !(share && share->number() == 0.0)) ++dropouts;
    const Argument* mean = n.findArgument("running_mean");
    if (n.op->baseName() == "batch_norm" && isOn("training") && mean && !mean->isNone()) ++norms;
  }
  std::vector<std::string> what;
  if (dropouts > 0) what.push_back(fmt::format("active dropouts: {}", dropouts));
  if (norms > 0) what.push_back(fmt::format("batch norms that change their statistics: {}", norms));
  if (what.empty()) return std::nullopt;
  return fmt::format(
      "The model was saved in training mode ({}). To use it as trained, call model.eval() before it is saved.",
      fmt::join(what, "; "));
}

}  // namespace

Result<Prepared> prepare(const OpenRequest& which, const InputRequest& on, Needs needs, ApplyReport& report,
                         const Semantics& semantics, const Job& job) {
  auto model = open(which, semantics, job);
  if (!model) return model.error();
  report.model = which.path;
  report.method = which.method;
  report.format = model->format;
  report.missing = missingOperators(model->graph);
  if (auto note = noteOfTrainingMode(*model)) report.settled.push_back(std::move(*note));
  Prepared out{std::move(*model), {}, std::nullopt};
  if (!out.model.format->declaresSizes) out.sizes = tracedSizes(out.model.graph);
  if (needs == Needs::Nothing) return out;
  if (auto made = inputsFor(out.model.graph, on)) {
    report.randomInputs = std::move(made->random);
    out.inputs = std::move(made->tensors);
    if (auto note = keepWithinRange(out.model, which, *out.inputs, semantics, job))
      report.settled.push_back(std::move(*note));
  } else if (needs == Needs::Inputs || on.isGiven()) {
    return made.error();
  } else {
    report.noInputs = made.error().message;
  }
  return out;
}

Status recordTypes(Prepared& prepared, ApplyReport& report, const Semantics& semantics) {
  if (!prepared.inputs) return done();
  const std::vector<std::string>& notes = prepared.model.notes;
  const size_t noted = notes.size();
  if (Status s = recordTypes(prepared.model, *prepared.inputs, semantics.operators()); !s) return s;
  report.settled.insert(report.settled.end(), notes.begin() + static_cast<std::ptrdiff_t>(noted), notes.end());
  return done();
}

Status verifyWhole(const Prepared& before, const Graph& rewritten, ApplyReport& report, const Job& job,
                   const FurtherInputs& further) {
  auto verification = verifyRewrite(before.model.graph, rewritten, *before.inputs, job, further);
  if (!verification) return verification.error();
  report.verification = std::move(*verification);
  report.refusal.reset();
  if (report.verification->passed) return done();
  // A model that does not run on the inputs has no numbers that could differ on purpose.
  if (!report.verification->outputs.empty()) report.changedOnPurpose = changingSteps(report.steps);
  if (report.changedOnPurpose.empty())
    report.refusal = Error{ErrorKind::Verification,
                           fmt::format("{}: the rewritten model computes something else: {}. Nothing was written.",
                                       report.model, report.verification->why),
                           {}};
  return done();
}

std::optional<Error> uncompared(const ApplyReport& report) {
  if (!report.verification || !report.verification->nothingCompared()) return std::nullopt;
  return Error{ErrorKind::Verification,
               fmt::format("{}: {} (--strict). Nothing was written.", report.model,
                           notCompared(report.verification->outputs).front()),
               {}};
}

Result<ApplyReport> apply(const ApplyRequest& request, const ChosenRecipe& rules, const Semantics& semantics,
                          const OnApplyStage& onStage, const Job& job) {
  ApplyReport report;
  const auto reached = [&](ApplyStage stage) {
    if (onStage) onStage(stage, report);
  };
  // Where nothing can be written is found out before the work, not after it.
  if (auto probe = AtomicFile::beside(request.output); !probe) return probe.error();
  report.recipe = rules.recipe.name;
  const Needs needs = request.asDeclared ? Needs::Nothing : request.verify ? Needs::Inputs : Needs::InputsIfAny;
  auto prepared = prepare(request.model, request.inputs, needs, report, semantics, job);
  if (!prepared) return prepared.error();
  const Model& model = prepared->model;
  const std::optional<TensorSet>& inputs = prepared->inputs;
  reached(ApplyStage::Inputs);
  if (Status s = recordTypes(*prepared, report, semantics); !s) return s.error();

  RewriteRequest how;
  how.recipe = rules.recipe;
  how.strict = request.strict;
  if (request.verify && request.verifyRewrites)
    how.verify = {inputs, !request.inputs.isGiven(), "", !model.format->declaresSizes, request.failingInputs};
  RewriteSelection selection;
  if (how.verify.inputs && !how.strict) how.selection = &selection;
  auto rewritten = rewrite(model.graph, rules.file, how, semantics, job);
  if (job.cancelled()) return interrupted();
  if (!rewritten) return rewritten.error();
  const Graph& graph = rewritten->graph;
  report.nodesBefore = rewritten->nodesBefore;
  report.nodesAfter = graph.nodeCount();
  report.steps = std::move(rewritten->steps);
  if (request.strict)
    for (const StepRun& s : report.steps)
      if (!s.refused.empty())
        return Error{ErrorKind::Verification,
                     fmt::format("{}: a match was not rewritten: {} (--strict)", s.name, s.refused[0]),
                     {}};
  report.unchanged = rewroteNothing(report.steps);
  reached(ApplyStage::Rewritten);
  if (report.unchanged) {
    if (request.allowUnchanged) {
      auto copied = copyModel(request.model, model.graph, request.output);
      if (!copied) return copied.error();
      report.output = std::move(*copied);
      reached(ApplyStage::Written);
    }
    return report;
  }

  if (request.verify)
    if (Status s = verifyWhole(*prepared, graph, report, job); !s) return s.error();
  if (report.refusal && how.selection && !report.verification->outputs.empty()) {
    auto found = bisect(model.graph, rules.file, how, *inputs, report.verification->why, semantics, job);
    if (job.cancelled()) return interrupted();
    if (found) {
      report.refusal.reset();
      report.bisection = std::move(found->bisection);
      report.verification = std::move(found->verification);
      report.steps = std::move(found->rewritten.steps);
      report.nodesAfter = found->rewritten.graph.nodeCount();
      rewritten->graph = std::move(found->rewritten.graph);
    }
  }
  if (request.strict && !report.refusal && report.verification) report.refusal = uncompared(report);
  reached(ApplyStage::Verified);
  if (report.refusal) return report;
  if (job.cancelled()) return interrupted();
  // What is timed is the file. It gets its name when all is done.
  auto staged =
      StagedModel::write(graph, request.output, inputs ? *inputs : TensorSet(), prepared->sizes, request.capture);
  if (!staged) return staged.error();
  if (request.verify && request.seconds && report.missing.empty()) {
    limitTuning(3);  // whoever applies rules waits for it; the first run of the file goes on
    const RunOptions options{request.inputs.device, request.inputs.dtype};
    auto timing = timeWrittenFile({model, model.graph, graph, staged->path(), *inputs, options, *request.seconds}, job);
    if (!timing) return timing.error();
    report.timing = std::move(*timing);
    reached(ApplyStage::Timed);
  }
  if (job.cancelled()) return interrupted();
  auto written = staged->publish();
  if (!written) return written.error();
  report.output = std::move(*written);
  reached(ApplyStage::Written);
  return report;
}

}  // namespace graft::workbench
