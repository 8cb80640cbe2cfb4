// The engine's methods about generated kernels: which there are and why, their code, what a person wants otherwise.
#include <algorithm>

#include "app/engine/methods.h"
#include "app/json/documents_json.h"
#include "app/json/list_json.h"
#include "app/json/rewrites_json.h"
#include "app/workbench/compile/generated_code.h"
#include "app/workbench/compile/measured_kernels.h"
#include "core/base/atomic_file.h"

namespace graft {

using nlohmann::json;

namespace {

const char* const plan = "the plan";

/// The pass alone, as a recipe.
Recipe fuseRecipe(const Steering& steering) {
  Recipe recipe;
  recipe.name = "fuse";
  recipe.steps.push_back(workbench::fuseStep({.steering = steering}));
  return recipe;
}

}  // namespace

/// "gpu": plan as for a model on a GPU, or not; without it, as the model lies.
std::optional<bool> Session::Methods::wantsGpu() const {
  if (!params.contains("gpu")) return std::nullopt;
  if (!params["gpu"].is_boolean()) throw RpcError{-32602, "the parameter gpu is true or false"};
  return params["gpu"].get<bool>();
}

json Session::Methods::kernelsJson(const Document& d, const Steering& steering) const {
  const FusionOptions options{.steering = steering};
  workbench::CodeReport report = take(
      workbench::generatedCode(d.graph(), {.fusion = options, .isForGpu = wantsGpu()}, s.semantics_.operators(), job));
  if (params.value("measure", false)) {
    if (wantsGpu().value_or(false) && !isOnGpu(d.graph()))
      throw RpcError{1, "what is planned for a GPU is measured where the model lies on one"};
    const workbench::VerifyOn on = verifyOn(d);
    if (!on.inputs) throw RpcError{1, on.obstacle};
    take(workbench::measureKernels(d.graph(), options, *on.inputs, s.semantics_, report, job,
                                   params.value("trySchedules", false)));
  }
  json out = toJson(report);
  out["plan"] = printSteering(steering);
  out["revision"] = d.history.revision();
  return out;
}

/// "text": of another plan, which is looked at and does not become the document's.
json Session::Methods::kernelPlan() const {
  const Document& d = s.document(params);
  return kernelsJson(d, has("text") ? take(parseSteering(text("text"), plan)) : d.steering);
}

/// "kernel": its name or number; "as": groups, loops, cpp, cuda, ptx or sass; "usage": what it takes of a GPU, too.
json Session::Methods::kernelCode() const {
  const Document& d = s.document(params);
  const auto form = workbench::findForm(text("as"));
  if (!form) throw RpcError{-32602, "the parameter as is groups, loops, cpp, cuda, ptx or sass"};
  const workbench::CodeRequest request{.form = *form,
                                       .kernel = text("kernel"),
                                       .fusion = {.steering = d.steering},
                                       .isForGpu = wantsGpu(),
                                       .hasUsage = params.value("usage", false)};
  json out = toJson(take(workbench::generatedCode(d.graph(), request, s.semantics_.operators(), job)));
  return {{"as", out["as"]}, {"kernel", out["kernels"].at(0)}, {"revision", d.history.revision()}};
}

/// What each kernel takes of a GPU: {"name", "launches"} each, or "problem" where it is not compiled.
json Session::Methods::kernelUsage() const {
  const Document& d = s.document(params);
  const workbench::CodeRequest request{.form = workbench::CodeForm::Cuda,
                                       .fusion = {.steering = d.steering},
                                       .isForGpu = wantsGpu(),
                                       .capability = params.value("capability", 0),
                                       .hasUsage = true};
  const json all = toJson(take(workbench::generatedCode(d.graph(), request, s.semantics_.operators(), job)));
  json kernels = json::array();
  for (const json& k : all["kernels"]) {
    json row{{"name", k["name"]}};
    for (const char* key : {"launches", "problem"})
      if (k.contains(key)) row[key] = k[key];
    kernels.push_back(std::move(row));
  }
  return {{"kernels", std::move(kernels)}, {"capability", all["capability"]}, {"revision", d.history.revision()}};
}

/// One run of the graph that is shown, lane by lane; "kernels": with the plan's kernels in place. "device": where.
json Session::Methods::timeline() const {
  const Document& d = s.document(params);
  workbench::InputRequest wanted = inputRequest();
  if (!wanted.isGiven()) wanted.file = d.inputsFile;
  wanted.device = params.value("device", std::string("cpu"));
  const TensorSet inputs = take(workbench::inputsFor(d.history.original(), wanted)).tensors;
  const bool hasKernels = params.value("kernels", false);
  const Graph graph =
      hasKernels ? take(workbench::graphWithKernels(d.graph(), {.steering = d.steering}, s.semantics_)) : d.graph();
  const Program program = take(Program::build(graph, {wanted.device, std::nullopt, 0, !d.inputs.has_value()}));
  json out = workbench::toJson(take(timelineOf(program, graph, inputs, job)));
  out["revision"] = d.history.revision();
  return out;
}

/// "text" or "file": another plan; "add": an object with more entries; "remove": one entry, "merge[0]"; "save": a path,
/// where the plan is then written.
json Session::Methods::steer() const {
  Document& d = s.document(params);
  Steering steering = d.steering;
  if (has("text")) steering = take(parseSteering(text("text"), plan));
  if (has("file")) steering = take(readSteering(text("file")));
  if (has("remove")) take(removeEntry(steering, text("remove")));
  if (params.contains("add")) {
    json more = params["add"];
    if (!more.is_object()) throw RpcError{-32602, "the parameter add is an object, as a plan is one"};
    more["fusion"] = kSteeringVersion;
    if (!more.contains("automatic")) more["automatic"] = steering.automatic;
    addEntries(steering, take(parseSteering(more.dump(), plan)));
  }
  std::swap(steering, d.steering);
  try {
    json out = kernelsJson(d, d.steering);
    if (has("save")) take(writeFileAtomically(text("save"), printSteering(d.steering)));
    return out;
  } catch (...) {
    std::swap(steering, d.steering);  // nothing has changed
    throw;
  }
}

/// "kernel": its name or number; "loops", "source" or "schedule": what is to take the place of what is generated. It is
/// verified against the kernel's operators, and part of the plan only where it computes what they do.
json Session::Methods::editKernel() const {
  Document& d = s.document(params);
  const workbench::CodeReport before = take(workbench::generatedCode(
      d.graph(), {.kernel = text("kernel"), .fusion = {.steering = d.steering}}, s.semantics_.operators(), job));
  const workbench::GeneratedKernel& kernel = before.kernels.at(0);
  if (kernel.isInFile) throw RpcError{1, "the model has this kernel in place already: undo that to edit it"};
  json entry = {{"nodes", kernel.computing}};
  for (const char* key : {"loops", "source", "schedule"})
    if (params.contains(key)) entry[key] = params[key];
  const json only = {{"fusion", kSteeringVersion},
                     {"automatic", false},
                     {"merge", json::array({kernel.computing})},
                     {"kernels", json::array({entry})}};
  const Steering edit = take(parseSteering(only.dump(), plan));
  workbench::RewriteRequest request;
  request.recipe = fuseRecipe(edit);
  request.verify = verifyOn(d);
  if (!request.verify.inputs) throw RpcError{1, request.verify.obstacle};
  const workbench::Rewritten r = take(workbench::rewrite(d.graph(), RuleFile{}, request, s.semantics_, job));
  const bool isRight = r.refused().empty() && r.rolledBack().empty();
  json out = {{"isRight", isRight},
              {"refused", r.refused()},
              {"rolledBack", listJson(r.rolledBack())},
              {"verdicts", toJson(r.verdicts)}};
  if (isRight) {
    Steering kept;
    kept.automatic = d.steering.automatic;
    kept.kernels = edit.kernels;
    addEntries(d.steering, kept);
  }
  out["kernels"] = kernelsJson(d, d.steering);
  return out;
}

/// Puts the kernels of the plan in place: a step of the history, verified as rules/apply verifies. "text": of another
/// plan, which then is the document's.
json Session::Methods::fuse() const {
  Document& d = s.document(params);
  const Steering steering = has("text") ? take(parseSteering(text("text"), plan)) : d.steering;
  workbench::RewriteRequest request;
  request.keepSubSteps = true;
  request.recipe = fuseRecipe(steering);
  if (params.value("verify", true))
    request.verify = verifyOn(d);
  else
    request.verify.obstacle = "verification is switched off";
  workbench::Rewritten r = take(workbench::rewrite(d.graph(), RuleFile{}, request, s.semantics_, job));
  json out = rewrittenJson(r);
  std::vector<Record> records = r.records();
  d.history.add({std::move(r.graph), r.label, std::move(records), std::move(r.subSteps)});
  d.steering = steering;
  out["revision"] = d.history.revision();
  return out;
}

}  // namespace graft
