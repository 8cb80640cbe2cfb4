// The engine's methods that tell of one node: its operator, the Python it came from, its weights.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/engine/methods.h"
#include "app/engine/operator_docs.h"
#include "core/json/finite.h"
#include "core/torch/statistics.h"

namespace graft {

using nlohmann::json;

namespace {

constexpr int linesAround = 12;
constexpr size_t longestLine = 400;

/// Lines `from` to `to` of a Python file; empty where there is none, or it is no Python: a model names the path.
json linesOf(const std::string& path, int from, int to) {
  json lines = json::array();
  std::error_code none;
  if (!path.ends_with(".py") || !std::filesystem::is_regular_file(path, none)) return lines;
  std::ifstream in(path);
  std::string line;
  for (int n = 1; n <= to && std::getline(in, line); ++n)
    if (n >= from) lines.push_back(line.substr(0, longestLine));
  return lines;
}

}  // namespace

const Node& Session::Methods::node(const Graph& g) const {
  const NodeId n = g.findNode(text("node"));
  if (!n) throw RpcError{1, fmt::format("there is no node {}", text("node"))};
  return g.node(n);
}

/// {"operator", "schema", "doc", "effects"}; "schema" is empty for operators that this machine does not know.
json Session::Methods::describe() const {
  const Graph& g = s.document(params).graph();
  const Operator& op = *node(g).op;
  return {{"operator", op.name},
          {"schema", op.hasSchema ? schemaString(op) : std::string()},
          {"doc", operatorDoc(op.name)},
          {"effects", operatorEffects(op)}};
}

/// The Python around the line that a node comes from: {"file", "line", "first", "lines", "from"}. "from" is "file"
/// where the file lies on this machine, "model" where only the model's own copy of the line is known.
json Session::Methods::source() const {
  const Graph& g = s.document(params).graph();
  const SourceLocation* where = g.sourceOf(node(g));
  if (!where) throw RpcError{1, fmt::format("the model does not say where {} comes from", text("node"))};
  const int first = std::max(1, where->line - linesAround);
  json lines = linesOf(where->file, first, where->line + linesAround);
  const bool isFile = std::cmp_greater(lines.size(), where->line - first);
  if (!isFile) {
    if (where->code.empty())
      throw RpcError{
          1, fmt::format("{} is not on the engine's machine, and the model does not hold its text", where->file)};
    lines = json::array({where->code});
  }
  return {{"file", where->file},
          {"line", where->line},
          {"first", isFile ? first : where->line},
          {"lines", std::move(lines)},
          {"from", isFile ? "file" : "model"}};
}

json Session::Methods::weight() const {
  const Graph& g = s.document(params).graph();
  const ValueId v = g.findValue(text("name"));
  if (!v || !g.isWeight(v)) throw RpcError{1, fmt::format("there is no weight {}", text("name"))};
  const WeightStatistics w = take(weightStatistics(g, v));
  json first = json::array();
  for (double x : w.first) first.push_back(finiteJson(x));
  return {{"type", toString(g.value(v).type)}, {"min", finiteJson(w.min)},
          {"max", finiteJson(w.max)},          {"mean", finiteJson(w.mean)},
          {"std", finiteJson(w.std)},          {"histogram", {{"edges", w.edges}, {"counts", w.counts}}},
          {"first", std::move(first)},         {"zeros", w.zeros},
          {"nonFinite", w.nonFinite}};
}

}  // namespace graft
