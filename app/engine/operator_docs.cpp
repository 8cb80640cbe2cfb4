#include "app/engine/operator_docs.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/torch/operator_library.h"

namespace graft {
namespace {

constexpr std::string_view sentences =
#include "app/engine/operator_sentences.inc"
    ;

using Docs = std::map<std::string, std::string, std::less<>>;

Docs readSentences() {
  Docs out;
  std::string_view rest = sentences;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t gap = line.find("  ");
    if (line.starts_with('#') || gap == line.npos) continue;
    out.emplace(line.substr(0, gap), line.substr(gap + 2));
  }
  return out;
}

/// The operator library may be loaded after the engine started: asked until it answers.
const Docs& kernelDocs() {
  static Docs docs;
  if (!docs.empty()) return docs;
  const char* described = describeOperatorLibrary();
  if (!described) return docs;
  const nlohmann::json list = nlohmann::json::parse(described, nullptr, false);
  if (!list.is_array()) return docs;
  for (const nlohmann::json& op : list) {
    std::string text = op.value("doc", "");
    if (const std::string needs = op.value("needs", ""); !needs.empty()) text += fmt::format(" For speed: {}.", needs);
    docs.emplace("graft." + op.value("name", ""), std::move(text));
  }
  return docs;
}

}  // namespace

std::string operatorDoc(std::string_view name) {
  static const Docs known = readSentences();
  const size_t first = name.find('.'), second = first == name.npos ? first : name.find('.', first + 1);
  std::string_view packet = name.substr(0, second);
  const Docs& docs = packet.starts_with("graft.") ? kernelDocs() : known;
  if (const auto it = docs.find(packet); it != docs.end()) return it->second;
  if (!packet.ends_with('_')) return {};
  packet.remove_suffix(1);
  const auto it = docs.find(packet);
  return it == docs.end() ? std::string() : it->second + " In place: the input itself is changed.";
}

std::vector<std::string> operatorEffects(const Operator& op) {
  std::vector<std::string> out;
  for (const Parameter& p : op.parameters)
    if (p.written) out.push_back(fmt::format("writes to {}", p.name));
  for (const Return& r : op.returns)
    for (const Parameter& p : op.parameters)
      if (!r.aliasSet.empty() && r.aliasSet == p.aliasSet && !p.written)
        out.push_back(fmt::format("the output may share memory with {}", p.name));
  if (op.random) out.emplace_back("draws random numbers");
  if (op.sideEffects) out.emplace_back("has effects outside: it is never moved or removed");
  return out;
}

}  // namespace graft
