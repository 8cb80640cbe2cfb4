// graft apply: rewrites a model by a rule file, verifies that it still computes the same, and writes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/console/applied_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/apply.h"
#include "core/base/atomic_file.h"
#include "core/base/numbers/ratio_range.h"
#include "core/base/words.h"
#include "core/formats/model.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::ApplyReport;
using workbench::ApplyStage;

struct ApplyFlags : Common {
  std::vector<std::string> models;
  std::string rules, recipe, fusion, output, report, failingInputs, junit;
  std::vector<std::string> expect;
  bool noVerify = false, wholeOnly = false, noTiming = false, noCapture = false, strict = false, verbose = false;
  bool training = false, asDeclared = false;
  bool allowUnchanged = false;
  double seconds = 3, expectSpeed = 0;
};

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

/// Nothing was rewritten, and why that may be.
void tellUnchanged(const ApplyReport& r, const ApplyFlags& o, const workbench::ChosenRecipe& rules,
                   const Console& console) {
  const bool none = std::none_of(r.steps.begin(), r.steps.end(),
                                 [](const StepRun& s) { return s.isRule && !workbench::foundNothing(s); });
  console.warn(fmt::format("{}: nothing was rewritten{}{}", r.model, none ? "; " + whyHint(r.model, rules) : "",
                           o.allowUnchanged ? "" : ". No file was written; --allow-unchanged copies the model."));
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
      console.print(fmt::format("{}: {} with {}\n", console.bold(r.model), r.recipe, rules.file.path));
      tellRewritten(r, {.passes = true, .idle = true, .each = o.verbose, .hints = true}, console);
      if (r.unchanged) tellUnchanged(r, o, rules, console);
      return;
    case ApplyStage::Verified:
      if (r.bisection) tellBisection(r, o.verbose, console);
      return tellVerified(r, console);
    case ApplyStage::Timed:
      return tellTimed(r, console);
    case ApplyStage::Written:
      return tellWritten(r, console);
  }
}

/// --expect-speed: an error only where the runs show that it is slower than that.
Status checkSpeed(const ApplyReport& r, const ApplyFlags& o) {
  if (o.expectSpeed <= 0) return done();
  if (!r.timing)
    return Error{ErrorKind::Expectation, fmt::format("{}: --expect-speed: the model was not timed", r.model), {}};
  const PairedTiming& t = r.timing->times;
  const RatioRange range = ratioRange(t.a.samplesMs, t.b.samplesMs);
  if (range.high >= o.expectSpeed) return done();
  return Error{ErrorKind::Expectation,
               fmt::format("{}: {:.2f} times as fast as the original ({:.2f} to {:.2f}), expected {:g} times", r.model,
                           t.ratio, range.low, range.high, o.expectSpeed),
               {}};
}

Ending applyOne(const ApplyFlags& o, const std::string& path, const std::string& method, const std::string& out,
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
  request.allowUnchanged = o.allowUnchanged;
  request.asDeclared = o.asDeclared;
  const auto onStage = [&](ApplyStage stage, const ApplyReport& r) { tell(stage, r, o, rules, console); };
  auto report = workbench::apply(request, rules, semantics(), onStage, console.job());
  if (!report) return report.error();
  reports.push_back(toJson(*report));
  if (report->refusal) return *report->refusal;
  if (Status s = checkSpeed(*report, o); !s) return s;
  return report->unchanged && !report->output ? Ending::unchanged() : Ending(done());
}

/// "out.forward.1.pt" for the graph forward.1 where forward goes to out.pt.
std::string outputOf(const std::string& graph, const std::string& out) {
  std::filesystem::path path(out);
  const std::string ending = path.extension().string();
  return path.replace_extension(graph + ending).string();
}

/// The graph that --method names, or all graphs of a capture, one after the other: one that fails never stops the
/// others. --inputs are what the model is called with, so they are the first graph's; the others run on random ones.
Ending applyGraphs(const ApplyFlags& o, const std::string& path, const std::string& out,
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
  size_t failed = 0, unchanged = 0;
  for (const std::string& graph : *graphs) {
    const bool isFirst = graph == graphs->front();
    console.print(console.bold("graph " + graph));
    const Ending ending =
        applyOne(isFirst ? o : others, path, graph, isFirst ? out : outputOf(graph, out), rules, console, reports);
    unchanged += ending.isUnchanged;
    if (ending.status) continue;
    ++failed;
    Error e = ending.status.error();
    e.message = fmt::format("{}: {}", graph, e.message);
    if (e.kind == ErrorKind::Cancelled) return e;
    console.warn(e.message);
    if (!first) first = std::move(e);
  }
  if (!first) return unchanged == graphs->size() ? Ending::unchanged() : Ending(done());
  first->message =
      fmt::format("{}: {} of {} graphs failed; the first: {}", path, failed, graphs->size(), first->message);
  return *first;
}

Ending apply(const ApplyFlags& o) {
  const Console console(o.printing);
  if (o.asDeclared && !(o.noVerify && o.noTiming && o.inputs.empty() && o.specs.empty()))
    return Error{ErrorKind::Usage,
                 "--as-declared runs nothing: give it with --no-verify and --no-timing, and without inputs",
                 {}};
  auto rules = workbench::loadRecipe(o.rules, o.recipe, semantics().operators());
  if (!rules) return rules.error();
  if (o.training) takeGradients(rules->file);
  if (!o.fusion.empty())
    if (Status s = workbench::steerFusion(rules->recipe, o.fusion); !s) return s;
  workbench::planForDevice(rules->recipe, o.device);
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
  JUnitFile junit(o.junit, "graft apply");
  const Ending ending = forEachModel(*models, console, [&](const std::string& path) {
    return noted(junit, path, [&] { return applyGraphs(o, path, outputs->at(path), *rules, console, reports); });
  });
  if (Status s = junit.write(); !s) return s;
  const bool any = !reports.empty();
  const std::string text = workbench::documentOfModels(std::move(reports));
  if (!o.report.empty() && any) {
    if (Status s = writeFileAtomically(o.report, text + "\n"); !s) return s;
    console.print("report  " + o.report);
  }
  console.document(text);
  return ending;
}

}  // namespace

void addApply(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand(
      "apply", "Rewrite a model, verify it against the original, and write it as TorchScript or torch.export");
  auto o = std::make_shared<ApplyFlags>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--recipe", o->recipe, "The recipe to run; without it, all rules of the file run in its order");
  addFusionOption(*c, o->fusion);
  c->add_option(
       "-o,--output", o->output,
       "Where the rewritten model goes: TorchScript for *.pt, torch.export for *.pt2; a folder for several models")
      ->required()
      ->type_name("OUT.pt");
  c->add_option("--report", o->report, "Write the whole report as JSON (docs/json describes it)")->type_name("R.json");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 where the rule rewrites another number of times");
  c->add_option(
       "--expect-speed", o->expectSpeed,
       "Exit with 4 where the runs show that the result is less than so many times as fast as the original; it "
       "is written nevertheless")
      ->type_name("FACTOR")
      ->check(CLI::PositiveNumber);
  addJUnitOption(*c, o->junit);
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
  c->add_flag(
      "--allow-unchanged", o->allowUnchanged,
      "Copy the model where nothing was rewritten; without this, nothing is written then and the exit code is 7");
  c->add_flag("--training", o->training,
              "The result will be differentiated, as graft_fx.backend(training=True) does it: rules bring along the "
              "gradients that their own `backward` computes");
  c->add_flag("--as-declared", o->asDeclared,
              "Run nothing: sizes and dtypes are those that the file declares. Goes with --no-verify and --no-timing");
  c->add_flag("--no-capture", o->noCapture, "Write a model that does not run as CUDA graphs on a GPU");
  c->add_flag(
      "--strict", o->strict,
      "Stop at the first match that cannot be rewritten, or whose rewrite computes something else, and where no "
      "number of the whole model's outputs could be compared");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return apply(*o); }; });
}

}  // namespace graft::cli
