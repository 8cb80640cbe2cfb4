// graft run: computes a model's outputs, saves or compares them.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/console/differences_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/run.h"

namespace graft::cli {
namespace {

struct RunFlags : Common {
  std::string model, output, expected;
};

Status runModel(const RunFlags& o) {
  const Console console(o.printing);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  auto model = workbench::open({o.model, methodOf(o)}, semantics(), job);
  if (!model) return model.error();
  auto inputs = modelInputs(model->graph, o, console);
  if (!inputs) return inputs.error();
  auto report = workbench::run(*model, *inputs, {*options, o.output, o.expected}, job);
  if (!report) return report.error();
  if (report->moved) noteMoved(*report->moved, options->device, console);
  if (!report->notCaptured.empty())
    console.note("The model ran operator by operator, not as a CUDA graph: " + report->notCaptured);
  for (const std::string& d : report->outputs.describe()) console.print("output  " + d);
  if (!report->output.empty()) console.print("saved   " + report->output);
  if (report->differences) console.print(differencesTable(*report->differences));
  console.document(workbench::document(toJson(*report)));
  return report->failure ? Status(*report->failure) : done();
}

}  // namespace

void addRun(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("run", "Run a model and save its outputs; with --expect, compare them with saved ones");
  auto o = std::make_shared<RunFlags>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  addMethodOption(*c, *o);
  c->add_option("-o,--output", o->output, "Where to save the outputs, as torch.save does")->type_name("OUT.pt");
  c->add_option("--expect", o->expected, "Saved outputs to compare with")->type_name("FILE");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return runModel(*o); }; });
}

}  // namespace graft::cli
