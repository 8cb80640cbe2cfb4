// The engine's methods about what was captured: the graphs of a capture with their breaks and guards, the cut of a
// training step, and several models or steps side by side.
#include "app/engine/methods.h"
#include "app/json/documents_json.h"
#include "app/json/numbers_json.h"
#include "app/workbench/captured/guards.h"
#include "app/workbench/side_by_side/side_by_side.h"
#include "app/workbench/training/partition.h"
#include "core/base/atomic_file.h"
#include "core/formats/captured_graphs.h"
#include "core/text/text.h"

namespace graft {

using nlohmann::json;

/// The graphs of the file that the document was read from. Of the document's own the guards, too, each with what would
/// break it.
json Session::Methods::captured() const {
  const Document& d = s.document(params);
  json graphs = json::array(), guards = json::array();
  for (const CapturedGraph& g : take(capturedGraphs(d.path))) {
    json row{{"name", g.name}, {"nodes", g.nodes}, {"guards", g.guards.size()}, {"break", nullptr}};
    if (!g.breakReason.empty()) {
      const workbench::BreakPlace place = workbench::breakPlace(g.breakReason);
      row["break"] = {{"reason", place.reason}, {"explanation", place.explanation},
                      {"hint", place.hint},     {"file", place.file},
                      {"line", place.line},     {"code", place.code}};
    }
    graphs.push_back(std::move(row));
    if (g.name != d.method) continue;
    std::vector<workbench::InputType> inputs;
    const Graph& original = d.history.original();
    for (const ValueId v : original.inputs())
      inputs.push_back({original.value(v).name, toString(original.value(v).type)});
    for (const workbench::Guard& guard : workbench::explainGuards(g.guards, inputs))
      guards.push_back(
          {{"text", guard.text}, {"about", workbench::spelling(guard.about)}, {"brokenBy", guard.brokenBy}});
  }
  return {{"graphs", std::move(graphs)}, {"guards", std::move(guards)}};
}

/// "memory", "save", "recompute": what is wanted of the cut, or "file", which has them. "curve": other budgets, too;
/// "verify": run the halves beside the joint graph; "measure": time the nodes. "write": a path, where the wishes are
/// then written.
json Session::Methods::cut() const {
  const Document& d = s.document(params);
  if (!d.signature || !workbench::isJoint(*d.signature))
    throw RpcError{1,
                   "this graph is no joint graph: open the graph joint of a capture with gradients, "
                   "graft_fx.capture(model, inputs, path, joint=True)"};
  workbench::PartitionRequest request;
  request.model = {d.path, d.method};
  if (has("file")) request.wishes = take(workbench::readCutFile(text("file")));
  request.wishes.memory = params.value("memory", request.wishes.memory);
  if (!(request.wishes.memory >= 0 && request.wishes.memory <= 1))
    throw RpcError{-32602, "the parameter memory is a share from 0 to 1"};
  request.wishes.save = params.value("save", request.wishes.save);
  request.wishes.recompute = params.value("recompute", request.wishes.recompute);
  request.inputs = inputRequest();
  request.verify = params.value("verify", false);
  request.measure = params.value("measure", false);
  request.curve = params.value("curve", false);
  const workbench::PartitionReport report =
      takeParameter(workbench::partition(d.graph(), *d.signature, request, s.semantics_, job));
  json out = toJson(report);
  out["wishes"] = toJson(request.wishes);
  out["why"] = report.failure ? json(report.failure->message) : json();
  out["revision"] = d.history.revision();
  if (has("write")) take(writeFileAtomically(text("write"), toJson(request.wishes).dump(2) + "\n"));
  return out;
}

/// "models": states of documents, the first of which the others are compared with: {"step", "subStep", "document"}
/// each, of the request's document where they name none.
json Session::Methods::sideBySide() const {
  const Document& d = s.document(params);
  if (!params.contains("models") || !params["models"].is_array() || params["models"].size() < 2)
    throw RpcError{-32602, "the parameter models is a list of at least two"};
  std::vector<workbench::Contestant> models;
  for (const json& m : params["models"]) {
    if (!m.is_object()) throw RpcError{-32602, "each of models is an object"};
    const Document& of = m.contains("document") ? s.documentOf(m, "document") : d;
    const Methods named{s, m, job, part};
    const auto place = takeParameter(of.history.find(named.count("step").value_or(0), named.count("subStep")));
    models.push_back({named.has("name") ? named.text("name") : of.path, &of.history.graphAt(place)});
  }
  workbench::InputRequest wanted = inputRequest();
  wanted.device = params.value("device", std::string("cpu"));
  const TensorSet inputs = take(workbench::inputsFor(*models[0].graph, wanted)).tensors;
  workbench::CompareRequest request;
  request.options = {wanted.device, std::nullopt, 0, !d.inputs.has_value()};
  request.seconds = params.value("seconds", 2.0);
  const workbench::SideBySide table = take(workbench::sideBySide(models, inputs, request, job));
  json out = toJson(table);
  out["inputs"] = inputs.describe();
  out["why"] = table.failure ? json(table.failure->message) : json();
  return out;
}

}  // namespace graft
