// graft compare: two models side by side, or a table of several.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/console/differences_text.h"
#include "app/console/timing_text.h"
#include "app/json/documents_json.h"
#include "app/workbench/side_by_side/side_by_side.h"

namespace graft::cli {
namespace {

using workbench::CompareStage;
using workbench::Comparison;
using workbench::SideBySideRow;

struct CompareFlags : Common {
  std::vector<std::string> models;
  double seconds = 3;
  bool layers = false;
};

void print(const workbench::SideBySide& t, const Console& console) {
  std::vector<std::vector<std::string>> rows{{"model", "nodes", "kernels", "ms", "p10", "p90", "speed", "max abs", ""}};
  for (const SideBySideRow& r : t.rows) {
    std::vector<std::string> row{r.name, std::to_string(r.nodes), std::to_string(r.kernels)};
    if (r.obstacle.empty()) {
      const bool isFirst = &r == &t.rows.front();
      for (const double ms : {r.timing.medianMs, r.timing.p10Ms, r.timing.p90Ms})
        row.push_back(fmt::format("{:.3f}", ms));
      row.push_back(isFirst ? "" : fmt::format("{:.2f}x", r.ratio));
      row.push_back(isFirst ? "" : std::isnan(r.maxAbs()) ? "-" : fmt::format("{:.2e}", r.maxAbs()));
      row.push_back(isFirst ? "compared with" : r.passed ? "ok" : "differs");
    } else {
      row.insert(row.end(), {"", "", "", "", "", "did not run"});
    }
    rows.push_back(std::move(row));
  }
  console.print(table(rows));
  console.print(t.protocol);
}

/// Three and more: a row each.
Status compareSeveral(const CompareFlags& o, const Console& console) {
  if (o.layers) return Error{ErrorKind::Usage, "--layers compares two models; give two, or leave it out", {}};
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  std::vector<Model> models;
  for (const std::string& path : o.models) {
    auto model = openModel(path, o, job);
    if (!model) return model.error();
    models.push_back(std::move(*model));
  }
  auto inputs = modelInputs(models.front().graph, o, console);
  if (!inputs) return inputs.error();
  std::vector<workbench::Contestant> contestants;
  for (const Model& m : models) contestants.push_back({m.path, &m.graph});
  auto table = workbench::sideBySide(contestants, *inputs, {*options, o.seconds, false}, job);
  if (!table) return table.error();
  print(*table, console);
  console.document(workbench::document(toJson(*table)));
  return table->failure ? Status(*table->failure) : done();
}

Status compare(const CompareFlags& o) {
  const Console console(o.printing);
  if (o.models.size() > 2) return compareSeveral(o, console);
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
    if (stage == CompareStage::Outputs) {
      console.print(differencesTable(c.outputs));
      warnOfNotCompared(c.outputs, c.overflow, console);
    }
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
  auto* c = app.add_subcommand("compare", "Run models side by side: their outputs and their times");
  auto o = std::make_shared<CompareFlags>();
  c->add_option("models", o->models, "Two models; or several, which are compared with the first")
      ->required()
      ->expected(2, 64)
      ->type_name("MODEL");
  c->add_option("--seconds", o->seconds, "How long to time the models, all together")->capture_default_str();
  c->add_flag("--layers", o->layers, "Compare the values inside two models too, and say where the numbers part");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return compare(*o); }; });
}

}  // namespace graft::cli
