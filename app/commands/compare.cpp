// graft compare: two models side by side.
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/console/differences_text.h"
#include "app/console/timing_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/compare.h"

namespace graft::cli {
namespace {

using workbench::CompareStage;
using workbench::Comparison;

struct CompareFlags : Common {
  std::vector<std::string> models;
  double seconds = 3;
  bool layers = false;
};

Status compare(const CompareFlags& o) {
  const Console console(o.printing);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  // Both in --dtype from here on, so that outputs, layers and times are of the same two graphs.
  auto a = openModel(o.models[0], o, job);
  if (!a) return a.error();
  auto b = openModel(o.models[1], o, job);
  if (!b) return b.error();
  auto inputs = modelInputs(a->graph, o, console);
  if (!inputs) return inputs.error();
  const auto onStage = [&](CompareStage stage, const Comparison& c) {
    if (stage == CompareStage::Outputs) console.print(differencesTable(c.outputs));
    if (stage == CompareStage::Layers) console.print(layersText(*c.layers));
    if (stage == CompareStage::Timed) console.print(timingText(c.timing, c.a, c.b));
  };
  auto compared = workbench::compare(*a, *b, *inputs, {*options, o.seconds, o.layers}, onStage, job);
  if (!compared) return compared.error();
  console.document(workbench::document(toJson(*compared)));
  return compared->failure ? Status(*compared->failure) : done();
}

}  // namespace

void addCompare(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("compare", "Run two models side by side: their outputs and their times");
  auto o = std::make_shared<CompareFlags>();
  c->add_option("models", o->models, "The two models")->required()->expected(2)->type_name("MODEL");
  c->add_option("--seconds", o->seconds, "How long to time both models")->capture_default_str();
  c->add_flag("--layers", o->layers, "Compare the values inside the models too, and say where the numbers part");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return compare(*o); }; });
}

}  // namespace graft::cli
