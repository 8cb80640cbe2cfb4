// graft apply: rewrites a model by a rule file, verifies that it still computes the same, and writes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/console/differences_text.h"
#include "app/console/timing_text.h"
#include "app/console/verification_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/apply.h"
#include "core/base/atomic_file.h"
#include "core/base/words.h"
#include "core/formats/model.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::ApplyReport;
using workbench::ApplyStage;

struct ApplyFlags : Common {
  std::vector<std::string> models;
  std::string rules, recipe, output, report, failingInputs;
  std::vector<std::string> expect;
  bool noVerify = false, wholeOnly = false, noTiming = false, noCapture = false, strict = false, verbose = false;
  double seconds = 3;
};

using Verdict = RewriteVerification::Verdict;

/// A row for each step. Rules that found nothing share one line below, which names the first few, unless all rows are
/// wanted.
std::string stepsTable(const std::vector<StepRun>& steps, bool all) {
  constexpr size_t kNamed = 4;
  std::vector<std::vector<std::string>> rows{{"step", "rewrites", "verified", "ms", "where"}};
  std::vector<std::string> idle;
  for (const StepRun& s : steps) {
    if (!all && s.isRule && workbench::foundNothing(s)) {
      idle.push_back(s.name);
      continue;
    }
    std::string where;
    size_t shown = 0;
    for (const Record& r : s.records) {
      if (r.scope.empty() || shown == 2) continue;
      where += (shown++ ? ", " : "") + r.scope;
    }
    if (s.records.size() > shown && shown > 0) where += ", …";
    rows.push_back(
        {s.name, std::to_string(s.records.size()), verifiedText(s), fmt::format("{:.2f}", s.milliseconds), where});
  }
  if (idle.empty()) return table(rows);
  return table(rows) + fmt::format("{} matched nothing: {}{}\n", counted(idle.size(), "rule"), firstFew(idle, kNamed),
                                   idle.size() > kNamed ? " (--verbose lists them)" : "");
}

/// Which rewrites were taken back and which could not be verified: --quiet silences neither.
void tellVerifications(const std::vector<StepRun>& steps, bool each, const Console& console) {
  size_t back = 0;
  for (const StepRun& s : steps) {
    back += s.rolledBack.size();
    for (const std::string& line : takenBackLines(s, each)) console.warn(line);
    std::map<std::string, size_t> unverified, remarks;
    for (const RewriteVerification& v : verificationsOf(s))
      if (v.verdict == Verdict::Unverified)
        ++unverified[v.why];
      else if (v.verdict == Verdict::Verified && !v.why.empty())
        ++remarks[v.why];
    for (const auto& [why, count] : remarks) console.note(fmt::format("{}: {} verified, but {}", s.name, count, why));
    for (const auto& [why, count] : unverified)
      console.warn(fmt::format("{}: {} not verified{}: {}", s.name, s.isRule ? counted(count, "rewrite") : "the step",
                               s.isRule ? " on its own" : "", why));
  }
  if (back > 0)
    console.warn(fmt::format("{} taken back; the others stay. With --strict that is an error{}",
                             back == 1 ? "1 rewrite was" : fmt::format("{} rewrites were", back),
                             back == 1 || each ? "." : "; --verbose and --report list each of them."));
}

/// Each rewrite passed and the whole did not: what was taken back for that.
void tellBisection(const ApplyReport& r, bool each, const Console& console) {
  const workbench::Bisection& b = *r.bisection;
  console.warn(fmt::format("each of {} passed its check, and the model as a whole did not: {}",
                           counted(b.rewrites, "rewrite"), b.why));
  for (const StepRun& s : r.steps)
    for (const std::string& line : takenBackLines(s, each)) console.warn(line);
  console.warn(fmt::format("{} taken back{}; with the other {} the model passes ({} to find that out)",
                           b.takenBack == 1 ? "1 rewrite was" : fmt::format("{} rewrites were", b.takenBack),
                           b.isComplete ? "" : ", some of them untried, since time was up", b.rewrites - b.takenBack,
                           counted(b.runs, "run")));
  console.print(fmt::format("nodes: {} before, {} after\n", r.nodesBefore, r.nodesAfter));
}

/// A path from the current folder, where it lies below.
std::string fromHere(const std::string& path) {
  std::error_code e;
  const auto near = std::filesystem::proximate(path, e).string();
  return e || near.starts_with("..") ? path : near;
}

/// What a program in Python does about a library of operators before it loads the written file.
std::string howToLoad(const std::string& library) {
  const std::string what =
      library.ends_with(".py")
          ? fmt::format("import {}, of {}", std::filesystem::path(library).stem().string(), fromHere(library))
          : fmt::format("torch.ops.load_library(\"{}\")", fromHere(library));
  return "in Python, before it is loaded: " + what;
}

/// Where each model's result goes: the given path, or a file of the model's name in the given folder. Nothing is ever
/// written over another result or over a model that was given.
Result<std::map<std::string, std::string>> outputPaths(const ApplyFlags& o, const std::vector<std::string>& models) {
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorKind::Usage, fmt::format("-o {}: {}", o.output, why), {}};
  };
  std::error_code e;
  const bool folder = std::filesystem::is_directory(o.output, e);
  if (models.size() > 1 && !folder)
    return refuse(fmt::format("the results of {} models go into a folder; make one first", models.size()));
  if (!folder)
    if (Status s = checkModelOutput(o.output); !s) return s.error();
  std::map<std::string, std::string> out, modelOf;
  for (const std::string& m : models) {
    const auto file = std::filesystem::path(m).stem().string() + ".pt";
    const std::string path = folder ? (std::filesystem::path(o.output) / file).string() : o.output;
    for (const std::string& given : models)
      if (std::filesystem::equivalent(path, given, e)) return refuse(given + " itself would be overwritten");
    const auto [other, first] = modelOf.emplace(path, m);
    if (!first && other->second != m)
      return refuse(fmt::format("{} and {} would both be written to {}; apply them into folders of their own",
                                other->second, m, path));
    out[m] = path;
  }
  return out;
}

/// Prints what one stage of the work has found.
void tell(ApplyStage stage, const ApplyReport& r, const ApplyFlags& o, const workbench::ChosenRecipe& rules,
          const Console& console) {
  switch (stage) {
    case ApplyStage::Inputs:
      noteRandomInputs(r.randomInputs, console);
      noteMissing(r.model, r.missing,
                  o.noVerify ? "The model is not timed." : "The model is verified in parts, and not timed.", console);
      if (!r.noInputs.empty())
        console.note("There are no inputs: shapes stay unknown, and rules with conditions on them do not match.");
      return;
    case ApplyStage::Rewritten:
      for (const StepRun& s : r.steps)
        for (const Record& record : s.records)
          for (const Record::Retyped& t : record.retyped)
            console.note(fmt::format("{}: `{}` was {} and is {} now", s.name, t.value, t.before, t.after));
      for (const StepRun& s : r.steps)
        for (const std::string& why : s.refused)
          console.warn(fmt::format("{}: a match was left as it was: {}", s.name, why));
      console.print(fmt::format("{}: {} with {}\n", console.bold(r.model), r.recipe, rules.file.path));
      console.print(stepsTable(r.steps, o.verbose));
      tellVerifications(r.steps, o.verbose, console);
      console.print(fmt::format("nodes: {} before, {} after\n", r.nodesBefore, r.nodesAfter));
      if (workbench::foundNothing(r.steps)) console.warn("nothing was rewritten; " + whyHint(r.model, rules));
      return;
    case ApplyStage::Verified:
      if (!r.verification) return console.print("not verified (--no-verify)");
      if (r.bisection) tellBisection(r, o.verbose, console);
      for (const std::string& why : r.verification->notVerified) console.warn("not verified as a whole: " + why);
      if (r.verification->isEmpty()) return;
      console.print(
          r.verification->passed
              ? fmt::format("differences on the {} inputs (fp64 reference), and on {} further sets of inputs:",
                            r.randomInputs.empty() ? "given" : "random", r.verification->inputSets - 1)
              : fmt::format("differences where set {} of inputs {} (fp64 reference):", r.verification->inputSets,
                            r.changedOnPurpose.empty() ? "failed" : "differs"));
      console.print(differencesTable(r.verification->outputs, !r.changedOnPurpose.empty()));
      if (!r.changedOnPurpose.empty())
        console.warn(
            fmt::format("the numbers differ, as {} may change them: {}", r.changedOnPurpose, r.verification->why));
      return;
    case ApplyStage::Timed:
      return console.print(timingText(r.timing->times, r.timing->original, "rewritten"));
    case ApplyStage::Written: {
      const workbench::WrittenModel& w = *r.output;
      if (w.sizesAreFixed)
        console.note(fmt::format(
            "{} takes inputs of these sizes only: torch.export has to know how sizes follow from each other, and here "
            "it cannot. TorchScript (-o OUT.pt) takes what the traced model takes.",
            w.path));
      console.print(fmt::format("written {}\non a GPU it runs {}", w.path,
                                w.captureObstacle.empty() ? "as CUDA graphs, one for each shape"
                                                          : "operator by operator: " + w.captureObstacle));
      if (!w.operatorLibrary.empty()) console.print(howToLoad(w.operatorLibrary));
      for (const UserLibrary& l : w.libraries) console.print(howToLoad(l.path));
    }
  }
}

Status applyOne(const ApplyFlags& o, const std::string& path, const std::string& method, const std::string& out,
                const workbench::ChosenRecipe& rules, const Console& console, json& reports) {
  auto options = runOptions(o);
  if (!options) return options.error();
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  workbench::ApplyRequest request;
  request.model = {path, method, options->dtype};
  request.inputs = std::move(*inputs);
  request.output = out;
  request.failingInputs = o.failingInputs;
  request.verify = !o.noVerify;
  request.verifyRewrites = !o.wholeOnly;
  request.strict = o.strict;
  if (!o.noTiming) request.seconds = o.seconds;
  request.capture = !o.noCapture;
  const auto onStage = [&](ApplyStage stage, const ApplyReport& r) { tell(stage, r, o, rules, console); };
  auto report = workbench::apply(request, rules, semantics(), onStage, console.job());
  if (!report) return report.error();
  reports.push_back(toJson(*report));
  return report->refusal ? Status(*report->refusal) : done();
}

/// "out.forward.1.pt" for the graph forward.1 where forward goes to out.pt.
std::string outputOf(const std::string& graph, const std::string& out) {
  std::filesystem::path path(out);
  const std::string ending = path.extension().string();
  return path.replace_extension(graph + ending).string();
}

/// The graph that --method names, or all graphs of a capture, one after the other: one that fails never stops the
/// others. --inputs are what the model is called with, so they are the first graph's; the others run on random ones.
Status applyGraphs(const ApplyFlags& o, const std::string& path, const std::string& out,
                   const workbench::ChosenRecipe& rules, const Console& console, json& reports) {
  auto graphs = o.method.empty() ? graphNames(path) : std::vector<std::string>{o.method};
  if (!graphs) return graphs.error();
  if (graphs->size() == 1) return applyOne(o, path, graphs->front(), out, rules, console, reports);
  if (!rules.recipe.expect.empty())
    return Error{ErrorKind::Usage,
                 fmt::format("{}: an expected number of rewrites is one graph's; name it with --method: {}", path,
                             fmt::join(*graphs, ", ")),
                 {}};
  ApplyFlags others = o;
  others.inputs.clear();
  others.specs.clear();
  std::optional<Error> first;
  size_t failed = 0;
  for (const std::string& graph : *graphs) {
    const bool isFirst = graph == graphs->front();
    console.print(console.bold("graph " + graph));
    const Status s =
        applyOne(isFirst ? o : others, path, graph, isFirst ? out : outputOf(graph, out), rules, console, reports);
    if (s) continue;
    ++failed;
    Error e = s.error();
    e.message = fmt::format("{}: {}", graph, e.message);
    if (e.kind == ErrorKind::Cancelled) return e;
    console.warn(e.message);
    if (!first) first = std::move(e);
  }
  if (!first) return done();
  first->message =
      fmt::format("{}: {} of {} graphs failed; the first: {}", path, failed, graphs->size(), first->message);
  return *first;
}

Status apply(const ApplyFlags& o) {
  const Console console(o.printing);
  auto rules = workbench::loadRecipe(o.rules, o.recipe, semantics().operators());
  if (!rules) return rules.error();
  auto& expected = rules->recipe.expect;
  for (const std::string& e : o.expect) {
    auto wanted = parseExpectation(e, rules->file);
    if (!wanted) return wanted.error();
    std::erase_if(expected, [&](const auto& x) { return x.first == wanted->first; });
    expected.push_back(std::move(*wanted));
  }
  auto models = modelFiles(o.models, console);
  if (!models) return models.error();
  auto outputs = outputPaths(o, *models);
  if (!outputs) return outputs.error();
  if (!o.report.empty())
    if (auto probe = AtomicFile::beside(o.report); !probe) return probe.error();
  json reports = json::array();
  const Status status = forEachModel(*models, console, [&](const std::string& path) {
    return applyGraphs(o, path, outputs->at(path), *rules, console, reports);
  });
  const bool any = !reports.empty();
  const std::string text = workbench::documentOfModels(std::move(reports));
  if (!o.report.empty() && any) {
    if (Status s = writeFileAtomically(o.report, text + "\n"); !s) return s;
    console.print("report  " + o.report);
  }
  console.document(text);
  return status;
}

}  // namespace

void addApply(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand(
      "apply", "Rewrite a model, verify it against the original, and write it as TorchScript or torch.export");
  auto o = std::make_shared<ApplyFlags>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--recipe", o->recipe, "The recipe to run; without it, all rules of the file run in its order");
  c->add_option(
       "-o,--output", o->output,
       "Where the rewritten model goes: TorchScript for *.pt, torch.export for *.pt2; a folder for several models")
      ->required()
      ->type_name("OUT.pt");
  c->add_option("--report", o->report, "Write the whole report as JSON (docs/json describes it)")->type_name("R.json");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 where the rule rewrites another number of times");
  c->add_option("--seconds", o->seconds, "How long to time both models")->capture_default_str();
  c->add_flag("--no-verify", o->noVerify, "Compare no numbers; the report then says so");
  c->add_flag(
      "--whole-only", o->wholeOnly,
      "Compare the whole model only, not each rewrite on its own: a wrong rewrite then fails the model and is not "
      "taken back");
  c->add_flag("-v,--verbose", o->verbose,
              "Print a row for each rule, even if it matched nothing, and a line for each rewrite that was taken back");
  c->add_option("--failing-inputs", o->failingInputs,
                "Write the inputs that broke a rewrite to this folder, as RULE-OUTPUT.pt, for torch.load")
      ->type_name("FOLDER")
      ->check(!CLI::ExistingFile);
  c->add_flag("--no-timing", o->noTiming, "Time neither model");
  c->add_flag("--no-capture", o->noCapture, "Write a model that does not run as CUDA graphs on a GPU");
  c->add_flag("--strict", o->strict,
              "Stop at the first match that cannot be rewritten, or whose rewrite computes something else");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return apply(*o); }; });
}

}  // namespace graft::cli
