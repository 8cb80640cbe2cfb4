// graft bench: a model and its rewritten self side by side, and PyTorch's own modes beside them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/console/baselines_text.h"
#include "app/console/differences_text.h"
#include "app/console/timing_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/bench.h"
#include "app/workbench/training/train_bench.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using workbench::BenchReport;
using workbench::BenchStage;

struct BenchFlags : Common {
  std::vector<std::string> models;
  std::string rules, recipe, against, python;
  double seconds = 3;
  bool train = false;
  std::string memory = "100%", autocast;
};

/// Prints what one stage of the work has found.
void tell(BenchStage stage, const BenchReport& r, const workbench::ChosenRecipe& rules, const std::string& device,
          const Console& console) {
  switch (stage) {
    case BenchStage::Inputs:
      return noteRandomInputs(r.randomInputs, console);
    case BenchStage::Compared:
      console.print(fmt::format("{} {}\n{}, nodes: {} before, {} after", console.bold(r.model),
                                fmt::join(r.inputs, " "), counted(r.rewrites, "rewrite"), r.nodesBefore, r.nodesAfter));
      if (r.rewrites == 0)
        console.warn("nothing was rewritten: this times the model against itself; " + whyHint(r.model, rules));
      if (r.moved) noteMoved(*r.moved, device, console);
      return console.print(differencesTable(r.outputs));
    case BenchStage::Timed:
      if (!r.timing.notTimed.empty())
        console.warn("the file that would be written was not timed: " + r.timing.notTimed);
      return console.print(timingText(r.timing.times, r.timing.original, r.timing.rewritten));
    case BenchStage::BaselinesTimed:
      return console.print(baselinesTable(*r.baselines));
  }
}

/// --train: steps of training, in Python processes alone.
Ending train(const BenchFlags& o) {
  const Console console(o.printing);
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  if (!o.method.empty() && o.method != "forward")
    return Error{ErrorKind::Usage, "--train times what a file's forward computes: give it without --method", {}};
  auto modes =
      workbench::parseBaselines(o.against.empty() ? "eager,compile,graft" : o.against, workbench::trainingModes());
  if (!modes) return modes.error();
  auto python = workbench::findPython(o.python, console.job());
  if (!python) return python.error();
  workbench::TrainBenchRequest request;
  request.inputs = std::move(*inputs);
  request.seconds = o.seconds;
  std::error_code none;
  request.training = {.modes = std::move(*modes),
                      .model = "",
                      .python = std::move(*python),
                      .graft = std::filesystem::read_symlink("/proc/self/exe", none).string(),
                      .package = "",
                      .rules = o.rules,
                      .recipe = o.recipe,
                      .memory = o.memory,
                      .autocast = o.autocast};
  nlohmann::json reports = nlohmann::json::array();
  const Ending ending = forEachModel(o.models, console, [&](const std::string& path) -> Ending {
    request.model = path;
    auto report = workbench::trainBench(request, semantics(), console.job());
    if (!report) return report.error();
    noteRandomInputs(report->randomInputs, console);
    console.print(fmt::format("{} {}", console.bold(report->model), fmt::join(report->inputs, " ")));
    console.print(trainingTable(report->comparison));
    reports.push_back(toJson(*report));
    return done();
  });
  console.document(workbench::documentOfModels(std::move(reports)));
  return ending;
}

Ending bench(const BenchFlags& o) {
  if (o.train) return train(o);
  if (o.rules.empty()) return Error{ErrorKind::Usage, "bench needs --rules, or --train", {}};
  if (o.memory != "100%" || !o.autocast.empty())
    return Error{ErrorKind::Usage, "--memory and --autocast are for --train", {}};
  const Console console(o.printing);
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  auto rules = workbench::loadRecipe(o.rules, o.recipe, semantics().operators());
  if (!rules) return rules.error();
  workbench::planForDevice(rules->recipe, inputs->device);
  workbench::BenchRequest request;
  request.inputs = std::move(*inputs);
  request.seconds = o.seconds;
  if (!o.against.empty()) {
    auto modes = workbench::parseBaselines(o.against);
    if (!modes) return modes.error();
    request.baselines = std::move(*modes);
    auto python = workbench::findPython(o.python, console.job());
    if (!python) return python.error();
    request.python = std::move(*python);
  }
  nlohmann::json reports = nlohmann::json::array();
  const Ending ending = forEachModel(o.models, console, [&](const std::string& path) -> Ending {
    request.model = path;
    request.method = methodOf(o);
    const auto onStage = [&](BenchStage stage, const BenchReport& r) { tell(stage, r, *rules, o.device, console); };
    auto report = workbench::bench(request, *rules, semantics(), onStage, console.job());
    if (!report) return report.error();
    reports.push_back(toJson(*report));
    if (report->failure) return *report->failure;
    if (!report->changedOnPurpose.empty())
      console.warn(fmt::format("the numbers differ, as {} may change them", report->changedOnPurpose));
    return done();
  });
  console.document(workbench::documentOfModels(std::move(reports)));
  return ending;
}

}  // namespace

void addBench(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("bench", "Time the original and the rewritten model in turns");
  auto o = std::make_shared<BenchFlags>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file; --train goes without one, too")->type_name("FILE");
  c->add_option("--recipe", o->recipe, "The recipe to run; without it, all rules of the file run in its order");
  c->add_option(
       "--against", o->against,
       "Also time PyTorch's own modes, each in a Python process of its own. A list with commas between: eager, "
       "jit, compile, compile-max-autotune, exported (the rewritten model in Python); with --train eager, compile, "
       "compile-max-autotune, graft")
      ->type_name("MODES");
  c->add_flag("--train", o->train,
              "Time steps of training instead, with AdamW, and the memory that a step takes: eager, torch.compile and "
              "graft_fx.backend(training=True) in turns. The loss is what the model returns, or the mean of its "
              "outputs' squares");
  c->add_option("--memory", o->memory, "With --train: what graft may save, as graft partition takes it")
      ->capture_default_str()
      ->type_name("SHARE%");
  c->add_option("--autocast", o->autocast, "With --train: the dtype of torch.autocast, such as bfloat16")
      ->type_name("DTYPE");
  c->add_option("--python", o->python, "The Python with PyTorch that --against runs")->type_name("PROGRAM");
  c->add_option("--seconds", o->seconds, "How long to time both models")->capture_default_str();
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return bench(*o); }; });
}

}  // namespace graft::cli
