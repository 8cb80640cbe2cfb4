#include "app/workbench/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/torch/operator_library.h"

namespace graft::workbench {
namespace {

constexpr std::string_view sentences =
#include "app/workbench/operator_sentences.inc"
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

/// The operator library may be loaded after the program started: it is asked until it answers.
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

std::vector<std::string> effectsOf(const Operator& op) {
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

/// Lines `from` to `to` of a Python file; empty where there is none, or it is no Python: a model names the path.
std::vector<std::string> linesOf(const std::string& path, int from, int to) {
  constexpr size_t longestLine = 400;
  std::vector<std::string> lines;
  std::error_code none;
  if (!path.ends_with(".py") || !std::filesystem::is_regular_file(path, none)) return lines;
  std::ifstream in(path);
  std::string line;
  for (int n = 1; n <= to && std::getline(in, line); ++n)
    if (n >= from) lines.push_back(line.substr(0, longestLine));
  return lines;
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

NodeDescription describe(const Node& node) {
  const Operator& op = *node.op;
  return {op.name, op.hasSchema ? schemaString(op) : std::string(), operatorDoc(op.name), effectsOf(op)};
}

Result<NodeSource> sourceOf(const Graph& g, const Node& node) {
  constexpr int linesAround = 12;
  const SourceLocation* where = g.sourceOf(node);
  if (!where) return badInput(fmt::format("the model does not say where {} comes from", node.name));
  NodeSource out{where->file, where->line, std::max(1, where->line - linesAround), {}, false};
  out.lines = linesOf(where->file, out.first, where->line + linesAround);
  out.isFile = std::cmp_greater(out.lines.size(), where->line - out.first);
  if (out.isFile) return out;
  if (where->code.empty())
    return badInput(
        fmt::format("{} is not on the engine's machine, and the model does not hold its text", where->file));
  out.first = where->line;
  out.lines = {where->code};
  return out;
}

Result<WeightReport> weightNamed(const Graph& g, const std::string& name) {
  const ValueId v = g.findValue(name);
  if (!v || !g.isWeight(v)) return badInput(fmt::format("there is no weight {}", name));
  auto statistics = weightStatistics(g, v);
  if (!statistics) return statistics.error();
  return WeightReport{toString(g.value(v).type), std::move(*statistics)};
}

}  // namespace graft::workbench
