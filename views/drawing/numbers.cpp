// A user's numbers of nodes, from JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "views/drawing/drawing.h"

namespace graft {
namespace {

/// False where it is no object of numbers.
bool takeNumbers(const nlohmann::json& json, NodeNumbers& into) {
  if (!json.is_object() || json.empty()) return false;
  for (const auto& [name, value] : json.items()) {
    const nlohmann::json& number = value.is_object() && value.contains("value") ? value["value"] : value;
    if (!number.is_number()) return false;
    into.values[name] = number.get<double>();
  }
  return true;
}

}  // namespace

Result<NodeNumbers> readNumbers(std::string_view text, std::string_view title) {
  NodeNumbers numbers;
  numbers.title = title;
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return badInput(fmt::format("{} is no JSON", title));
  // Under the name of a graph.
  if (json.is_object() && json.size() == 1 && json.begin()->is_object() && json.begin()->contains("results"))
    json = *json.begin();
  const bool hasResults = json.is_object() && json.contains("results");
  if (hasResults && json.contains("name") && json["name"].is_string()) numbers.title = json["name"].get<std::string>();
  if (takeNumbers(hasResults ? json["results"] : json, numbers)) return numbers;
  return badInput(
      fmt::format("{} does not give numbers of nodes: write {{\"node\": 1.5, …}}, or Model Explorer's "
                  "{{\"results\": {{\"node\": {{\"value\": 1.5}}}}}}",
                  title));
}

}  // namespace graft
