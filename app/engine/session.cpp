#include "app/engine/session.h"

#include "app/engine/methods.h"
#include "app/json/documents_json.h"
#include "app/json/list_json.h"
#include "app/json/rewrites_json.h"
#include "app/workbench/training/partition.h"
#include "core/formats/captured_graphs.h"
#include "core/formats/export.h"
#include "core/json/graph_json.h"
#include "core/text/diff.h"
#include "core/text/text.h"
#include "core/torch/memory.h"
#include "core/torch/operator_library.h"

namespace graft {

using nlohmann::json;

bool Session::Methods::has(const char* key) const { return params.contains(key) && params[key].is_string(); }

std::string Session::Methods::text(const char* key) const {
  if (!has(key)) throw RpcError{-32602, fmt::format("the parameter {} must be a string", key)};
  return params[key].get<std::string>();
}

std::optional<size_t> Session::Methods::count(const char* key) const {
  if (!params.contains(key)) return std::nullopt;
  return params[key].is_number_unsigned() ? params[key].get<size_t>() : 0;
}

const Graph& Session::Methods::reference(const Document& d) const {
  return params.contains("other") ? s.documentOf(params, "other").graph() : d.history.original();
}

workbench::InputRequest Session::Methods::inputRequest() const {
  workbench::InputRequest out;
  if (has("inputs")) out.file = text("inputs");
  if (params.contains("inputs") && params["inputs"].is_array())
    out.specs = params["inputs"].get<std::vector<std::string>>();
  out.seed = params.value("seed", uint64_t{0});
  return out;
}

json Session::Methods::graphField(const Graph& g) const {
  constexpr size_t partBytes = 256 << 10;
  const std::string wanted = has("graph") ? text("graph") : "whole";
  if (wanted == "none") return nullptr;
  if (wanted == "whole" || (wanted == "parts" && !part)) return toJson(g, JsonForm::Compact);
  if (wanted != "parts")
    throw RpcError{-32602, fmt::format("the parameter graph may be whole, parts or none, not {}", wanted)};
  job.report("sending the graph", 0, 0);
  size_t count = 0;
  const bool all = writeJsonParts(g, partBytes, [&](std::string_view text) {
    if (job.cancelled()) return false;
    part(text);
    ++count;
    return true;
  });
  if (!all) throw RpcError{-32800, "stopped; nothing was changed"};
  return {{"parts", count}};
}

json Session::Methods::initialize() const {
  json list = json::array();
  for (const DeviceInfo& d : devices()) list.push_back({{"name", d.name}, {"description", d.description}});
  return {{"version", 1}, {"devices", std::move(list)}, {"methods", Session::methods()}};
}

/// Models that were opened before keep their nodes as they were: they are opened again to use the operators.
json Session::Methods::loadLibrary() const { return toJson(take(loadUserLibrary(text("path"), job))); }

json Session::Methods::open() const {
  const std::string path = text("path");
  std::vector<std::string> graphs;
  for (CapturedGraph& g : take(capturedGraphs(path))) graphs.push_back(std::move(g.name));
  // A capture has a graph "forward", or whatever comes first.
  const std::string method = has("method") ? text("method") : graphs.empty() ? "forward" : graphs.front();
  Model model = take(workbench::open({path, method}, s.semantics_, job));
  std::optional<TensorSet> inputs;
  // Formats without shapes get them from inputs where such are given: shapes on edges and conditions on them need it.
  if (has("inputs")) {
    inputs = take(loadInputs(text("inputs"), model.graph));
    take(workbench::recordTypes(model, *inputs, s.semantics_.operators()));
  }
  auto doc = std::make_unique<Document>(Document{workbench::History(std::move(model.graph)), path, model.format,
                                                 has("inputs") ? text("inputs") : std::string(), std::move(inputs)});
  doc->method = method;
  doc->signature = model.signature;
  json out = {{"document", s.nextDocument_},
              {"format", model.format->name},
              {"method", method},
              {"graphs", graphs},
              {"isJoint", model.signature && workbench::isJoint(*model.signature)},
              {"nodes", doc->graph().nodeCount()},
              {"revision", doc->history.revision()},
              {"weightBytes", model.weightBytes},
              {"graph", graphField(doc->graph())},
              {"missingOperators", listJson(missingOperators(doc->graph()))}};
  s.documents_.emplace(s.nextDocument_++, std::move(doc));
  return out;
}

json Session::Methods::close() const {
  s.document(params);
  s.documents_.erase(params.at("document").get<int>());
  return json::object();
}

json Session::Methods::graph() const {
  const Document& d = s.document(params);
  return shown(d, graphField(d.graph()));
}

json Session::Methods::shown(const Document& d, json graph) {
  return {{"graph", std::move(graph)},
          {"revision", d.history.revision()},
          {"nodes", d.graph().nodeCount()},
          {"position", d.history.place().step}};
}

/// The document's file once more, as it was captured: before the normal form.
json Session::Methods::capturedModel() const {
  const Document& d = s.document(params);
  const std::shared_ptr<const Graph> captured = take(importAsCaptured(d.path, s.semantics_, d.method, job));
  return {{"graph", graphField(*captured)}, {"nodes", captured->nodeCount()}};
}

/// "step", and "subStep" of one that is a recipe: the state behind so many of its steps.
json Session::Methods::undoTo() const {
  workbench::History& history = s.document(params).history;
  const auto place = takeParameter(history.find(params.at("step").get<size_t>(), count("subStep")));
  json graph = graphField(history.graphAt(place));  // may be stopped: then nothing has changed
  history.show(place);
  return shown(s.document(params), std::move(graph));
}

json Session::Methods::history() const {
  const workbench::History& history = s.document(params).history;
  json steps = json::array();
  for (const workbench::History::Step& step : history.steps())
    steps.push_back({{"label", step.label}, {"nodes", step.graph.nodeCount()}, {"records", listJson(step.records)}});
  return {{"steps", std::move(steps)}, {"position", history.place().step}, {"revision", history.revision()}};
}

json Session::Methods::exportModel() const {
  const Document& d = s.document(params);
  ExportOptions options;
  if (d.inputs) options.inputs = *d.inputs;
  take(graft::exportModel(d.graph(), text("path"), options));
  return {{"path", text("path")}};
}

/// The canonical texts of the reference and the current graph, as a unified difference.
json Session::Methods::diff() const {
  const Document& d = s.document(params);
  const TextOptions options{.sources = false};
  json lines = json::array();
  for (const DiffLine& l :
       diffLines(toText(reference(d), options), toText(d.graph(), options), params.value("context", size_t{3})))
    lines.push_back({{"kind", std::string(1, l.kind)}, {"old", l.oldLine}, {"new", l.newLine}, {"text", l.text}});
  return {{"lines", std::move(lines)}, {"revision", d.history.revision()}};
}

Session::Session(const Semantics& semantics) : semantics_(semantics) {}
Session::~Session() = default;

Session::Document& Session::documentOf(const json& params, const char* key) {
  const auto it = params.find(key);
  if (it == params.end() || !it->is_number_integer())
    throw RpcError{-32602, fmt::format("the parameter {} must be a number", key)};
  const auto found = documents_.find(it->get<int>());
  if (found == documents_.end()) throw RpcError{1, fmt::format("there is no document {}", it->get<int>())};
  return *found->second;
}

const std::vector<std::pair<std::string, Session::Method>>& Session::table() {
  static const std::vector<std::pair<std::string, Method>> rows{
      {"initialize", [](const Methods& m) { return m.initialize(); }},
      {"library/load", [](const Methods& m) { return m.loadLibrary(); }},
      {"model/open", [](const Methods& m) { return m.open(); }},
      {"model/close", [](const Methods& m) { return m.close(); }},
      {"model/graph", [](const Methods& m) { return m.graph(); }},
      {"model/undoTo", [](const Methods& m) { return m.undoTo(); }},
      {"model/captured", [](const Methods& m) { return m.capturedModel(); }},
      {"model/history", [](const Methods& m) { return m.history(); }},
      {"model/export", [](const Methods& m) { return m.exportModel(); }},
      {"model/diff", [](const Methods& m) { return m.diff(); }},
      {"model/run", [](const Methods& m) { return m.run(); }},
      {"model/timeline", [](const Methods& m) { return m.timeline(); }},
      {"model/optimize", [](const Methods& m) { return m.optimize(); }},
      {"rules/check", [](const Methods& m) { return m.check(); }},
      {"rules/match", [](const Methods& m) { return m.match(); }},
      {"rules/explain", [](const Methods& m) { return m.explain(); }},
      {"rules/apply", [](const Methods& m) { return m.apply(); }},
      {"rules/words", [](const Methods& m) { return m.words(); }},
      {"node/describe", [](const Methods& m) { return m.describe(); }},
      {"node/source", [](const Methods& m) { return m.source(); }},
      {"node/weight", [](const Methods& m) { return m.weight(); }},
      {"compile/plan", [](const Methods& m) { return m.kernelPlan(); }},
      {"compile/code", [](const Methods& m) { return m.kernelCode(); }},
      {"compile/usage", [](const Methods& m) { return m.kernelUsage(); }},
      {"compile/steer", [](const Methods& m) { return m.steer(); }},
      {"compile/edit", [](const Methods& m) { return m.editKernel(); }},
      {"compile/apply", [](const Methods& m) { return m.fuse(); }},
      {"captured/graphs", [](const Methods& m) { return m.captured(); }},
      {"training/cut", [](const Methods& m) { return m.cut(); }},
      {"model/sideBySide", [](const Methods& m) { return m.sideBySide(); }},
  };
  return rows;
}

std::vector<std::string> Session::methods() {
  std::vector<std::string> out;
  for (const auto& row : table()) out.push_back(row.first);
  return out;
}

json Session::call(const std::string& method, const json& params, const Job& job, const SendPart& part) {
  if (!params.is_object()) throw RpcError{-32602, "parameters must be an object"};
  for (const auto& [name, f] : table())
    if (name == method) return f(Methods{*this, params, job, part});
  throw RpcError{-32601, fmt::format("there is no method {}", method)};
}

}  // namespace graft
