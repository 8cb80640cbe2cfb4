// The engine's steps: which snapshot is shown, and of one that a recipe made, up to which of the recipe's steps.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "app/engine/methods.h"

namespace graft {

using nlohmann::json;

namespace {

/// The last part that `inside` steps of the recipe made; null where none of them changed anything.
template <class Snapshot>
auto partAt(Snapshot& snapshot, size_t inside) -> decltype(snapshot.parts.data()) {
  decltype(snapshot.parts.data()) found = nullptr;
  for (auto& part : snapshot.parts)
    if (part.steps <= inside) found = &part;
  return found;
}

}  // namespace

const Graph& Session::Document::graph() const {
  if (!inside) return snapshots[position].graph;
  const Part* part = partAt(snapshots[position], *inside);
  return part ? part->graph : snapshots[position - 1].graph;
}

std::span<const Record> Session::Document::recordsOf(size_t step) const {
  const std::span<const Record> all = snapshots[step].records;
  if (step != position || !inside) return all;
  const Part* part = partAt(snapshots[position], *inside);
  return all.first(part ? part->records : 0);
}

void Session::Document::forgetTheRest() {
  snapshots.resize(position + 1);
  if (!inside) return;
  Graph shown = graph();
  Snapshot& s = snapshots[position];
  const Part* last = partAt(s, *inside);
  s.steps = s.kept = *inside;
  s.changed = last ? last->steps : 0;
  s.records.resize(last ? last->records : 0);
  std::erase_if(s.parts, [&](const Part& p) { return p.steps >= s.changed; });
  s.graph = std::move(shown);
  inside.reset();
}

/// "inside": of a step that is a recipe, only so many of its steps.
json Session::Methods::undoTo() const {
  Document& d = s.document(params);
  const size_t step = params.at("step").get<size_t>();
  if (step >= d.snapshots.size()) throw RpcError{-32602, fmt::format("there are {} steps", d.snapshots.size())};
  std::optional<size_t> inside;
  if (params.contains("inside")) {
    const json& n = params["inside"];
    const size_t steps = d.snapshots[step].steps;
    if (!n.is_number_unsigned() || n.get<size_t>() < 1 || n.get<size_t>() > steps)
      throw RpcError{-32602, fmt::format("step {} is a recipe of {} steps: inside is none of them", step, steps)};
    const auto& snapshot = d.snapshots[step];
    if (n.get<size_t>() < snapshot.changed) inside = n.get<size_t>();
    if (inside && *inside > snapshot.kept)
      throw RpcError{1, "the graph inside this recipe was not kept: together they are too large"};
  }
  const auto before = std::pair(std::exchange(d.position, step), std::exchange(d.inside, inside));
  try {
    json graph = graphField(d.graph());  // may be stopped
    ++d.revision;
    return shown(d, std::move(graph));
  } catch (const RpcError&) {
    std::tie(d.position, d.inside) = before;
    throw;
  }
}

json Session::Methods::history() const {
  const Document& d = s.document(params);
  json steps = json::array();
  for (const auto& snapshot : d.snapshots)
    steps.push_back(
        {{"label", snapshot.label}, {"nodes", snapshot.graph.nodeCount()}, {"records", recordsJson(snapshot.records)}});
  return {{"steps", std::move(steps)}, {"position", d.position}, {"revision", d.revision}};
}

}  // namespace graft
