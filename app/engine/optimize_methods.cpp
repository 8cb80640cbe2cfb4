// The engine's method that makes a model faster by the recipes that come with Graft.
#include "app/engine/methods.h"
#include "app/json/documents_json.h"
#include "app/workbench/optimize/optimize.h"
#include "core/base/temporary_folder.h"
#include "core/formats/export.h"

namespace graft {

using nlohmann::json;

namespace {

json toJson(const workbench::OptimizedPlan& plan) {
  json recipes = json::array();
  for (const auto& part : plan.recipes)
    recipes.push_back({{"file", part.file}, {"recipe", part.recipe}, {"without", part.without}});
  return {{"recipes", std::move(recipes)}, {"operators", plan.operators}};
}

workbench::OptimizedPlan planFrom(const json& plan) {
  workbench::OptimizedPlan out;
  try {
    for (const json& part : plan.at("recipes"))
      out.recipes.push_back({part.at("file"), part.at("recipe"), part.value("without", std::vector<std::string>())});
    out.operators = plan.value("operators", std::vector<std::string>());
  } catch (const json::exception&) {
    throw RpcError{-32602, "the parameter plan must be one that model/optimize has answered"};
  }
  return out;
}

}  // namespace

/// What `graft optimize` does with the graph that is shown: a step of the history where something is kept. Without
/// "output" the file that is timed is thrown away. "plan": what an earlier call kept, once more and without trials;
/// with "upTo" its first steps alone.
json Session::Methods::optimize() const {
  Document& d = s.document(params);
  const auto addStep = [&](workbench::Rewritten made, const workbench::OptimizedPlan& plan) {
    json out = rewrittenJson(made);
    out["label"] = made.label;
    out["plan"] = toJson(plan);
    std::vector<Record> records = made.records();
    d.history.add({std::move(made.graph), made.label, std::move(records), std::move(made.subSteps)});
    out["revision"] = d.history.revision();
    return out;
  };
  if (params.contains("plan")) {
    const workbench::OptimizedPlan plan = planFrom(params["plan"]);
    workbench::VerifyOn on = verifyOn(d);
    // Trials know the types that a run on the inputs gives. Without them another model would come out.
    Model shown;
    shown.format = d.format;
    shown.graph = d.graph();
    const bool isFile = d.history.place() == workbench::History::Place();
    const auto sizes = isFile ? workbench::DeclaredSizes::Stay : workbench::DeclaredSizes::FixedByInputs;
    if (on.inputs && !workbench::recordTypes(shown, *on.inputs, s.semantics_.operators(), sizes))
      shown.graph = d.graph();
    if (!params.value("verify", true)) {
      on = {};
      on.obstacle = "verification is switched off";
    }
    return addStep(take(workbench::optimizeAgain(std::move(shown.graph), plan, on, s.semantics_, job, count("upTo"))),
                   plan);
  }
  const TemporaryFolder folder = take(TemporaryFolder::inSystem());
  workbench::OptimizeRequest request;
  request.model = {d.path, d.method};
  request.inputs = inputRequest();
  if (!request.inputs.isGiven()) request.inputs.file = d.inputsFile;
  if (d.history.place() != workbench::History::Place()) {
    // It is to be faster than what is shown, not than the file that was opened.
    request.model = {folder.file("shown.pt")};
    ExportOptions how;
    if (d.inputs) how.inputs = *d.inputs;
    take(graft::exportModel(d.graph(), request.model.path, how));
  }
  request.graph = &d.graph();
  request.output = has("output") ? text("output") : folder.file("optimized.pt");
  request.seconds = params.value("seconds", *request.seconds);
  request.budget = params.value("budget", request.budget);
  request.keepSubSteps = true;
  workbench::OptimizeReport report = take(workbench::optimize(request, s.semantics_, {}, job));
  report.result.model = d.path;
  if (!has("output")) report.result.output.reset();
  json told = workbench::toJson(report);
  if (!report.rewritten) return {{"report", std::move(told)}, {"revision", d.history.revision()}};
  json out = addStep(std::move(*report.rewritten), report.plan);
  out["report"] = std::move(told);
  return out;
}

}  // namespace graft
