#include "app/json/documents_json.h"

#include <cmath>

#include "app/json/list_json.h"
#include "app/json/numbers_json.h"
#include "app/json/rewrites_json.h"
#include "core/json/graph_json.h"

namespace graft {

nlohmann::json toJson(const UserLibrary& l) { return {{"path", l.path}, {"operators", l.operators}}; }

nlohmann::json toJson(const MissingOperator& m) {
  nlohmann::json out{{"operator", m.name}, {"nodes", m.nodes}};
  if (!m.library.empty()) out["library"] = {{"path", m.library}, {"exists", m.libraryExists}};
  return out;
}

}  // namespace graft

namespace graft::workbench {

using nlohmann::json;

namespace {

constexpr int schemaNumber = 1;

/// Stands where a verification would, of what nothing was compared with.
json notVerified() { return {{"passed", nullptr}, {"skipped", true}}; }

json toJson(const RecipeFit& f) {
  json rules = json::array();
  for (const auto& [name, rewrites] : f.rules) rules.push_back({{"name", name}, {"rewrites", rewrites}});
  return {{"recipe", f.recipe->name},
          {"file", f.file->path},
          {"rewrites", f.rewrites},
          {"nodesAfter", f.nodesAfter},
          {"rules", std::move(rules)}};
}

/// What runs told of one model beside another; null where they were not timed.
json toJson(const std::optional<SpeedBeside>& s) {
  if (!s) return nullptr;
  return {{"ratio", s->ratio},
          {"ratioLow", s->range.low},
          {"ratioHigh", s->range.high},
          {"speed", speedName(speedOf(s->ratio, s->range))}};
}

json toJson(const TriedRecipe& t) {
  json out{{"recipe", t.recipe},
           {"file", t.file},
           {"rewrites", t.rewrites},
           {"nodesAfter", t.nodesAfter},
           {"beside", toJson(t.speed)},
           {"kept", t.isKept},
           {"why", t.why}};
  if (!t.behind.empty()) out["behind"] = t.behind;
  return out;
}

json toJson(const TriedRule& t) {
  return {{"recipe", t.recipe},         {"rule", t.rule},   {"rewrites", t.rewrites},
          {"without", toJson(t.speed)}, {"kept", t.isKept}, {"why", t.why}};
}

json toJson(const TriedGroup& t) {
  json out{{"kernel", t.kernel},        {"node", t.node},   {"module", t.module},
           {"beside", toJson(t.speed)}, {"kept", t.isKept}, {"why", t.why}};
  if (t.speed) {
    out["kernelMicroseconds"] = t.kernelMicroseconds;
    out["operatorsMicroseconds"] = t.operatorsMicroseconds;
  }
  return out;
}

json toJson(const MovedAlong& m) { return {{"names", m.names}, {"constants", m.constants}, {"stays", m.stays}}; }

}  // namespace

json toJson(const ApplyReport& r) {
  json out = {{"model", r.model},
              {"method", r.method},
              {"format", r.format->name},
              {"nodesBefore", r.nodesBefore},
              {"nodesAfter", r.nodesAfter},
              {"recipe", r.recipe},
              {"steps", listJson(r.steps)},
              {"unchanged", r.unchanged},
              {"verification", r.verification ? graft::toJson(*r.verification) : notVerified()}};
  if (!r.settled.empty()) out["notes"] = r.settled;
  if (!r.missing.empty()) out["missingOperators"] = listJson(r.missing);
  if (r.bisection)
    out["bisection"] = {{"why", r.bisection->why},
                        {"rewrites", r.bisection->rewrites},
                        {"takenBack", r.bisection->takenBack},
                        {"runs", r.bisection->runs},
                        {"complete", r.bisection->isComplete}};
  if (r.timing) out["timing"] = toJson(*r.timing);
  if (r.output) {
    out["output"] = r.output->path;
    out["captured"] = r.output->captureObstacle.empty();
    if (!r.output->captureObstacle.empty()) out["whyNotCaptured"] = r.output->captureObstacle;
  }
  return out;
}

json toJson(const BenchReport& r) {
  json out = {{"model", r.model},           {"inputs", r.inputs},
              {"rewrites", r.rewrites},     {"nodesBefore", r.nodesBefore},
              {"nodesAfter", r.nodesAfter}, {"outputs", listJson(r.outputs)},
              {"timing", toJson(r.timing)}};
  if (r.moved) out["moved"] = toJson(*r.moved);
  if (r.baselines) out["baselines"] = toJson(*r.baselines);
  return out;
}

json toJson(const SideBySide& s) {
  json rows = json::array();
  for (const SideBySideRow& r : s.rows) {
    json row{{"model", r.name}, {"nodes", r.nodes}, {"kernels", r.kernels}};
    if (!r.obstacle.empty()) {
      row["obstacle"] = r.obstacle;
    } else {
      row.update({{"outputs", listJson(r.outputs)},
                  {"passed", r.passed},
                  {"maxAbs", std::isnan(r.maxAbs()) ? json() : json(r.maxAbs())},
                  {"ratio", r.ratio},
                  {"timing", graft::toJson(r.timing)}});
    }
    rows.push_back(std::move(row));
  }
  return {{"models", std::move(rows)}, {"protocol", s.protocol}};
}

json toJson(const TrainBenchReport& r) {
  return {{"model", r.model}, {"inputs", r.inputs}, {"training", toJson(r.comparison)}};
}

json toJson(const Comparison& c) {
  json out = {{"a", {{"model", c.a}, {"nodes", c.nodesA}}},
              {"b", {{"model", c.b}, {"nodes", c.nodesB}}},
              {"outputs", listJson(c.outputs)},
              {"timing", graft::toJson(c.timing)}};
  if (c.layers) out["layers"] = listJson(*c.layers);
  if (nothingCompared(c.outputs)) out["nothingCompared"] = true;
  if (c.overflow) out["overflow"] = graft::toJson(*c.overflow);
  return out;
}

json toJson(const ConvertReport& r) {
  return {{"model", r.model}, {"format", r.format->name}, {"output", r.output}, {"nodes", r.nodes}};
}

json toJson(const DrawnModel& r) { return {{"model", r.model}, {"output", r.output}, {"nodes", r.nodes}}; }

json toJson(const ExplainedModel& r) {
  return {{"model", r.model},
          {"rule", r.explanation.rule},
          {"matches", r.explanation.matches},
          {"budgetExceeded", r.explanation.budgetExceeded},
          {"nearMisses", listJson(r.explanation.nearMisses)}};
}

json toJson(const KernelInfo& k) {
  return {{"name", k.name}, {"schema", k.schema}, {"doc", k.doc}, {"runsOn", k.runsOn}, {"needs", k.needs}};
}

json toJson(const MatchedModel& r) {
  return {{"model", r.model},
          {"format", r.format->name},
          {"nodes", r.nodes},
          {"ms", r.report.milliseconds},
          {"rules", listJson(r.report.rules)}};
}

json toJson(const FittedModel& r) {
  json recipes = json::array();
  for (const RecipeFit& f : r.fits) recipes.push_back(toJson(f));
  return {{"model", r.model},       {"format", r.format->name},      {"nodes", r.nodes},  {"ms", r.milliseconds},
          {"rules", json::array()}, {"recipes", std::move(recipes)}, {"advice", r.advice}};
}

namespace {

/// An error of the file at its place.
json mistakeJson(const Error& e, const std::string& file) {
  const Position at = e.position.value_or(Position{file, 0, 0, {}});
  return {{"message", e.message}, {"file", at.file}, {"line", at.line}, {"column", at.column}};
}

json mistakesJson(const std::optional<Error>& mistake, const std::string& file) {
  return mistake ? json::array({mistakeJson(*mistake, file)}) : json::array();
}

}  // namespace

json toJson(const std::vector<CheckedRules>& checked) {
  json files = json::array();
  for (const CheckedRules& c : checked)
    files.push_back(
        {{"file", c.file}, {"rules", c.rules}, {"recipes", c.recipes}, {"mistakes", mistakesJson(c.mistake, c.file)}});
  return {{"files", std::move(files)}};
}

json toJson(const std::vector<TestedRules>& tested) {
  json files = json::array();
  for (const TestedRules& t : tested) {
    json cases = json::array();
    for (const CaseResult& r : t.cases)
      cases.push_back({{"rule", r.rule},
                       {"line", r.line},
                       {"passed", !r.failure},
                       {"seconds", r.seconds},
                       {"failure", r.failure ? mistakeJson(*r.failure, t.file) : json()}});
    files.push_back({{"file", t.file},
                     {"cases", std::move(cases)},
                     {"untested", t.untested},
                     {"mistakes", mistakesJson(t.mistake, t.file)}});
  }
  return {{"files", std::move(files)}};
}

namespace {

std::string_view nameOf(OptimizeStage stage) {
  using enum OptimizeStage;
  switch (stage) {
    case Inputs:
      return "inputs";
    case Recipes:
      return "recipes";
    case Rules:
      return "rules";
    case Rewritten:
      return "rewritten";
    case Verified:
      return "verified";
    case Timed:
      return "timed";
    case Written:
      break;
  }
  return "written";
}

}  // namespace

json toJson(const OptimizeReport& r) {
  json recipes = json::array(), rules = json::array(), groups = json::array(), stages = json::array();
  for (const auto& [stage, seconds] : r.stages) stages.push_back({{"stage", nameOf(stage)}, {"seconds", seconds}});
  for (const TriedRecipe& t : r.recipes) recipes.push_back(toJson(t));
  for (const TriedRule& t : r.rules) rules.push_back(toJson(t));
  for (const TriedGroup& t : r.groups) groups.push_back(toJson(t));
  json out{{"recipes", std::move(recipes)}, {"rules", std::move(rules)},   {"groups", std::move(groups)},
           {"seconds", r.seconds},          {"stages", std::move(stages)}, {"outOfTime", r.isOutOfTime},
           {"result", toJson(r.result)}};
  if (!r.beside.empty()) out["against"] = r.beside;
  if (r.result.unchanged) {
    out["whyUnchanged"] = r.whyUnchanged;
    if (r.rejected) out["rejected"] = toJson(*r.rejected);
    out["advice"] = r.advice;
  }
  return out;
}

json toJson(const ModelInfo& info) {
  const Model& m = info.model;
  const Graph& g = m.graph;
  json inputs = json::array(), outputs = json::array();
  for (ValueId v : g.inputs()) inputs.push_back({{"name", g.value(v).name}, {"type", toString(g.value(v).type)}});
  for (const Argument& r : g.returns()) outputs.push_back(graft::toJson(g, r));
  return {{"model", m.path},
          {"format", m.format->name},
          {"name", g.name},
          {"nodes", g.nodeCount()},
          {"bytes", m.fileBytes},
          {"weights", {{"count", g.weights().size()}, {"elements", info.weightElements}, {"bytes", m.weightBytes}}},
          {"operators", info.operators},
          {"modules", info.modules},
          {"methods", m.methods},
          {"operatorLibraries", m.operatorLibraries},
          {"missingOperators", listJson(info.missing)},
          {"notes", m.notes},
          {"signature", m.signature ? graft::toJson(*m.signature) : json()},
          {"capture",
           {{"obstacle", info.capture.obstacle},
            {"waits", info.capture.waits},
            {"inPieces", info.capture.inPieces},
            {"writes", info.capture.writes}}},
          {"inputs", std::move(inputs)},
          {"symbols", symbolsJson(g)},
          {"outputs", std::move(outputs)}};
}

json toJson(const Timeline& t) {
  json lanes = json::array();
  for (const TimelineLane& lane : t.lanes) {
    json spans = json::array();
    for (const TimelineSpan& s : lane.spans) {
      json& span = spans.emplace_back(json{{"what", s.what}, {"startUs", s.start}, {"us", s.microseconds}});
      if (!s.node.empty()) span["node"] = s.node;
    }
    lanes.push_back({{"kind", laneKindName(lane.kind)},
                     {"name", lane.name},
                     {"busyUs", lane.busy()},
                     {"idleUs", t.idle(lane)},
                     {"spans", std::move(spans)}});
  }
  return {{"us", t.microseconds}, {"how", t.how}, {"lanes", std::move(lanes)}};
}

/// Operations a microsecond by type: {"f32": 98000.0}.
static json speedsJson(const std::map<DType, double>& speeds) {
  json out = json::object();
  for (const auto& [type, speed] : speeds) out[std::string(dtypeShort(type))] = speed;
  return out;
}

json toJson(const ProfileReport& r) {
  json nodes = json::array();
  for (const ProfiledNode& n : r.nodes) {
    json& row = nodes.emplace_back(json{{"node", n.name}, {"op", n.op}, {"module", n.module}, {"us", n.microseconds}});
    row["origin"] = n.origin;
    for (const CudaRunner::Launch& l : n.launches) {
      row["kernels"].push_back(l.kernel);
      json& launch = row["launches"].emplace_back(
          json{{"function", l.kernel}, {"blocks", l.blocks}, {"threads", l.threads}, {"sharedBytes", l.sharedBytes}});
      if (l.registers >= 0) launch["registers"] = l.registers;
      if (l.localBytes >= 0) launch["localBytes"] = l.localBytes;
      if (l.occupancy) launch["occupancy"] = *l.occupancy;
    }
    if (!n.generated.empty()) row["generated"] = n.generated;
    if (n.bytes > 0) row["bytes"] = n.bytes;
    if (n.operations) row["operations"] = *n.operations;
    if (n.least) row["leastUs"] = *n.least;
  }
  json out{{"model", r.model},
           {"device", r.device},
           {"operators", r.nodes.size()},
           {"us", r.microseconds},
           {"nodes", std::move(nodes)}};
  if (r.bandwidth) out["bytesPerUs"] = *r.bandwidth;
  if (!r.speeds.empty()) out["operationsPerUs"] = speedsJson(r.speeds);
  if (r.timeline) out["timeline"] = toJson(*r.timeline);
  if (r.captured)
    out["captured"] = {{"us", r.captured->wholeMicroseconds},
                       {"withMarkersUs", r.captured->withMarkersMicroseconds},
                       {"kernels", r.captured->kernels},
                       {"peakBytes", r.captured->peakBytes},
                       {"gpu", r.captured->gpu}};
  return out;
}

json toJson(const RunReport& r) {
  json out = {{"model", r.model}, {"inputs", r.inputs}, {"outputs", r.outputs.describe()}};
  if (r.captured) out["captured"] = *r.captured;
  if (r.moved) out["moved"] = toJson(*r.moved);
  if (!r.output.empty()) out["output"] = r.output;
  if (r.differences) out["differences"] = listJson(*r.differences);
  return out;
}

json toJson(const BatchReport& b) {
  json models = json::array();
  for (const BatchResult& r : b.results) {
    json model{{"model", r.task.model},
               {"outcome", std::string(outcomeName(r.outcome))},
               {"seconds", r.seconds},
               {"resumed", r.isFromState}};
    if (r.outcome != BatchOutcome::NotRun) model["exitCode"] = r.exitCode;
    if (r.outcome == BatchOutcome::Done) model["output"] = r.task.output;
    if (!r.error.empty()) model["error"] = r.error;
    const json report = json::parse(r.report, nullptr, false);
    if (report.is_object() && report.contains("models")) model["graphs"] = report["models"];
    if (report.is_object() && report.contains("result")) model["graphs"] = json::array({report["result"]});
    models.push_back(std::move(model));
  }
  return {{"models", std::move(models)}, {"seconds", b.seconds}, {"interrupted", b.isInterrupted}};
}

namespace {

json toJson(const KernelLaunch& l) {
  json out{{"function", l.function},
           {"schedule", l.schedule},
           {"blocks", l.blocks},
           {"threads", l.threads},
           {"sharedBytes", l.sharedBytes}};
  if (const auto& u = l.usage) {
    out.update({{"registers", u->registers}, {"stackBytes", u->stackBytes}, {"spillBytes", u->spillBytes}});
    if (u->occupancy > 0) out["occupancy"] = {{"share", u->occupancy}, {"blocks", u->blocks}, {"limit", u->limit}};
  }
  return out;
}

}  // namespace

json toJson(const CodeReport& c) {
  json kernels = json::array(), calls = json::array(), decisions = json::array(), notFused = json::array(),
       unapplied = json::array();
  for (const GeneratedKernel& k : c.kernels) {
    json kernel{
        {"name", k.name},       {"nodes", k.nodes},       {"modules", k.modules}, {"inputs", k.inputs},
        {"outputs", k.outputs}, {"isInFile", k.isInFile}, {"bytes", k.bytes},     {"bytesWritten", k.bytesWritten}};
    if (k.isInFile)
      kernel["call"] = k.call;
    else
      kernel.update({{"computing", k.computing},
                     {"bytesApart", k.bytesApart},
                     {"microseconds", k.microseconds},
                     {"savedMicroseconds", k.savedMicroseconds}});
    if (!k.product.empty()) kernel["product"] = k.product;
    if (k.measured) {
      if (!k.isInFile) kernel["operatorsUs"] = k.measured->operators;
      kernel["kernelUs"] = k.measured->kernel;
      if (k.measured->generated) kernel["generatedUs"] = *k.measured->generated;
      if (k.measured->least) kernel["leastUs"] = *k.measured->least;
    }
    if (k.operations) kernel["operations"] = *k.operations;
    for (const TriedSchedule& t : k.tried)
      kernel["tried"].push_back({{"schedule", codegen::printSchedule(t.schedule)}, {"us", t.microseconds}});
    if (!k.choice.schedule.isDefault()) kernel["schedule"] = codegen::printSchedule(k.choice.schedule);
    if (k.choice.isEdited()) kernel["edited"] = k.choice.source.empty() ? "loops" : "source";
    for (const KernelLaunch& l : k.launches) kernel["launches"].push_back(toJson(l));
    for (const NodeSpan& s : k.spans) kernel["spans"].push_back({{"node", s.node}, {"begin", s.begin}, {"end", s.end}});
    if (k.problem.empty())
      kernel["text"] = k.text;
    else
      kernel["problem"] = k.problem;
    kernels.push_back(std::move(kernel));
  }
  for (const FusionDecision& d : c.decisions) {
    json decision{{"producer", d.producer},
                  {"consumer", d.consumer},
                  {"value", d.value},
                  {"isLegal", d.isLegal},
                  {"isMerged", d.isMerged},
                  {"areSiblings", d.areSiblings},
                  {"apartMicroseconds", d.apart},
                  {"togetherMicroseconds", d.together}};
    if (d.isAsked) decision["isAsked"] = true;
    if (d.measured > 0) decision["measuredUs"] = d.measured;
    if (!d.why.empty()) decision["why"] = d.why;
    decisions.push_back(std::move(decision));
  }
  for (const SteeringProblem& p : c.unapplied) unapplied.push_back({{"entry", p.entry}, {"why", p.why}});
  for (const NotFused& n : c.notFused) notFused.push_back({{"node", n.node}, {"operator", n.op}, {"why", n.why}});
  for (const SingleCall& s : c.calls) {
    json call{{"node", s.node},           {"operator", s.op},
              {"module", s.module},       {"origin", originName(s.origin)},
              {"bytesRead", s.bytesRead}, {"bytesWritten", s.bytesWritten}};
    if (s.microseconds) call["operatorsUs"] = *s.microseconds;
    if (s.operations) call["operations"] = *s.operations;
    if (s.least) call["leastUs"] = *s.least;
    calls.push_back(std::move(call));
  }
  json out{{"as", formName(c.form)},
           {"isForGpu", c.isForGpu},
           {"kernels", std::move(kernels)},
           {"calls", std::move(calls)},
           {"decisions", std::move(decisions)},
           {"notFused", std::move(notFused)},
           {"unapplied", std::move(unapplied)}};
  if (c.capability > 0) out["capability"] = c.capability;
  if (c.measured)
    out["modelUs"] = {{"operators", c.measured->operators},
                      {"kernels", c.measured->kernels},
                      {"bytesPerMicrosecond", c.measured->bandwidth},
                      {"operationsPerMicrosecond", speedsJson(c.measured->speeds)}};
  return out;
}

json toJson(const ShownModel& s) {
  json out = graft::toJson(s.graph);
  if (s.isRewritten) out["verification"] = notVerified();
  return out;
}

std::string document(json report) {
  report["schema"] = schemaNumber;
  if (const auto libraries = userLibraries(); !libraries.empty()) report["libraries"] = listJson(libraries);
  return report.dump(2, ' ', false, json::error_handler_t::replace);
}

std::string documentOfModels(json reports) { return document({{"models", std::move(reports)}}); }

}  // namespace graft::workbench
