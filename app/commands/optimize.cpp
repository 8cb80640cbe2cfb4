// graft optimize: makes a model faster by the recipes that come with Graft, without a rule file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/console/applied_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/optimize/optimize.h"
#include "core/base/atomic_file.h"
#include "core/base/numbers/ratio_range.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using workbench::OptimizeReport;
using workbench::OptimizeStage;
using workbench::TriedGroup;
using workbench::TriedRecipe;
using workbench::TriedRule;

struct OptimizeFlags : Common {
  std::string model, output, report, fusion;
  bool noCapture = false, noTiming = false, allowUnchanged = false, strict = false;
  double seconds = 3, budget = 60;
};

/// What came of a trial. Of recipes that all make a model slower the best is tried without each of its rules.
std::string outcomeText(const TriedRecipe& t) {
  if (!t.isKept) return t.why;
  if (!t.behind.empty()) return "kept behind " + t.behind;
  return t.speed && speedOf(t.speed->ratio, t.speed->range) == Speed::Slower ? "the best of these" : "kept";
}

void tellRecipes(const OptimizeReport& r, const Console& console) {
  if (r.recipes.empty()) return;
  std::vector<std::vector<std::string>> rows{{"recipe", "rewrites", "nodes", "as TorchScript", ""}};
  for (const TriedRecipe& t : r.recipes)
    rows.push_back({t.recipe, std::to_string(t.rewrites), fmt::format("{} to {}", r.result.nodesBefore, t.nodesAfter),
                    t.speed    ? speedText(t.speed->ratio, t.speed->range)
                    : t.isKept ? "not timed: the time for trying was over (--budget)"
                               : "-",
                    outcomeText(t)});
  console.print(table(rows) + fmt::format("beside the {}\n", r.beside));
}

/// Those that trials left out; `wrong`: those that verification did, later on.
void tellLeftOut(const OptimizeReport& r, bool wrong, const Console& console) {
  for (const TriedRule& t : r.rules)
    if (!t.isKept && t.isWrong == wrong) console.print(fmt::format("left out {}: {}", t.rule, t.why));
}

void tellRules(const OptimizeReport& r, const OptimizeFlags& o, const Console& console) {
  tellLeftOut(r, false, console);
  if (r.isOutOfTime)
    console.note(
        fmt::format("The time for trying was over before all was tried: --budget {:g} gives more.", 2 * o.budget));
}

void tellGroups(const OptimizeReport& r, const Console& console) {
  for (const TriedGroup& t : r.groups)
    if (!t.isKept) console.print(fmt::format("took back the kernel {} ({}): {}", t.kernel, t.node, t.why));
}

void tellUnchanged(const OptimizeReport& r, const Console& console) {
  for (const std::string& line : r.advice) console.print(line);
  const char* what = r.result.timing   ? " It is faster as CUDA graphs, so it was written for them."
                     : r.result.output ? ""
                                       : " No file was written; --allow-unchanged copies the model.";
  console.warn(fmt::format("{} stays as it is: {}.{}", r.result.model, r.whyUnchanged, what));
  if (r.result.timing) tellTimed(r.result, console);
  if (r.result.output) tellWritten(r.result, console);
}

void tell(OptimizeStage stage, const OptimizeReport& r, const OptimizeFlags& o, const Console& console) {
  switch (stage) {
    case OptimizeStage::Inputs:
      return noteRandomInputs(r.result.randomInputs, console);
    case OptimizeStage::Recipes:
      return tellRecipes(r, console);
    case OptimizeStage::Rules:
      return tellRules(r, o, console);
    case OptimizeStage::Rewritten:
      tellLeftOut(r, true, console);
      if (!r.instead.empty()) console.note(r.instead);
      console.print(fmt::format("\n{}: {}\n", console.bold(r.result.model), r.result.recipe));
      tellRewritten(r.result, {}, console);
      return tellGroups(r, console);
    case OptimizeStage::Verified:
      return tellVerified(r.result, console);
    case OptimizeStage::Timed:
      return tellTimed(r.result, console);
    case OptimizeStage::Written:
      return r.result.unchanged ? tellUnchanged(r, console) : tellWritten(r.result, console);
  }
}

Ending optimize(const OptimizeFlags& o) {
  const Console console(o.printing);
  auto options = runOptions(o);
  if (!options) return options.error();
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  if (Status s = checkModelOutput(o.output); !s) return s;
  std::error_code e;
  if (std::filesystem::equivalent(o.model, o.output, e))
    return Error{ErrorKind::Usage, fmt::format("-o {}: the model itself would be overwritten", o.output), {}};
  if (!o.report.empty())
    if (auto probe = AtomicFile::beside(o.report); !probe) return probe.error();
  workbench::OptimizeRequest request;
  request.model = {o.model, methodOf(o), options->dtype};
  request.inputs = std::move(*inputs);
  request.output = o.output;
  request.seconds = o.noTiming ? std::nullopt : std::optional(o.seconds);
  request.budget = o.budget;
  request.capture = !o.noCapture;
  request.fusion = o.fusion;
  request.allowUnchanged = o.allowUnchanged;
  request.strict = o.strict;
  const auto onStage = [&](OptimizeStage stage, const OptimizeReport& r) { tell(stage, r, o, console); };
  auto report = workbench::optimize(request, semantics(), onStage, console.job());
  if (!report) return report.error();
  const std::string text = workbench::document(toJson(*report));
  if (!o.report.empty()) {
    if (Status s = writeFileAtomically(o.report, text + "\n"); !s) return s;
    console.print("report  " + o.report);
  }
  console.document(text);
  return report->result.output ? Ending(done()) : Ending::unchanged();
}

}  // namespace

void addOptimize(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("optimize",
                               "Make a model faster by the recipes that come with Graft; writes what is verified and "
                               "not slower");
  auto o = std::make_shared<OptimizeFlags>();
  c->add_option("model", o->model, modelHelp())->required()->type_name("MODEL");
  c->add_option("-o,--output", o->output, "Where the faster model goes: TorchScript for *.pt, torch.export for *.pt2")
      ->required()
      ->type_name("OUT.pt");
  c->add_option("--report", o->report, "Write the whole report as JSON (docs/json describes it)")->type_name("R.json");
  c->add_option("--seconds", o->seconds, "How long to time the written file beside the original")
      ->capture_default_str();
  c->add_flag("--no-timing", o->noTiming,
              "Do not time the written file: write the best of the trials, faster than the model or not");
  c->add_option("--budget", o->budget,
                "How many seconds all trials may take; what is left untried then stays as its recipe has it")
      ->capture_default_str();
  addFusionOption(*c, o->fusion);
  c->add_flag("--allow-unchanged", o->allowUnchanged,
              "Copy the model where nothing makes it faster; without this, nothing is written then and the exit code "
              "is 7");
  c->add_flag("--strict", o->strict,
              "A result of which no number could be compared is an error, as where the model overflows in its dtype");
  c->add_flag("--no-capture", o->noCapture, "Write a model that does not run as CUDA graphs on a GPU");
  c->footer(
      "Each recipe that fits is written as TorchScript and timed beside the original, then once more without each of "
      "its\nrules. What is kept is verified rewrite by rewrite and as a whole. A generated kernel that is slower than "
      "its\noperators is taken back. The written file is timed last.");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return optimize(*o); }; });
}

}  // namespace graft::cli
