#include "app/json/rules_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/json/graph_json.h"

namespace graft {

using nlohmann::json;

namespace {

json parametersJson(const Rule& rule) {
  static constexpr const char* kinds[] = {"value", "tensor", "weight",    "float",   "int",
                                          "bool",  "str",    "list[int]", "constant"};
  json out = json::array();
  for (const PatternParameter& p : rule.parameters)
    out.push_back({{"name", p.name}, {"kind", kinds[static_cast<size_t>(p.kind)]}});
  return out;
}

json linesJson(const Rule& rule) {
  json out = json::object();
  for (NodeId n : rule.pattern.order())
    if (const SourceLocation* s = rule.pattern.sourceOf(rule.pattern.node(n)); s && s->file == rule.file)
      out[rule.pattern.node(n).name] = {{"line", s->line}, {"column", s->column}, {"endColumn", s->endColumn}};
  return out;
}

/// The pattern with the lines of the rule's own file counted from the rule's line: they stay where lines above it come
/// and go.
Graph fromOwnLine(const Rule& rule) {
  Graph out = rule.pattern;
  for (size_t i = 0; i < out.nodeBound(); ++i) {
    const NodeId n(static_cast<uint32_t>(i));
    if (!out.isAlive(n)) continue;
    const SourceLocation* s = out.sourceOf(out.node(n));
    if (!s || s->file != rule.file) continue;
    SourceLocation moved = *s;
    moved.line -= rule.line;
    out.setSource(n, out.addSource(std::move(moved)));
  }
  return out;
}

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv
std::string hashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

/// Of all that a client may hold of a rule.
std::string fingerprintOf(const Rule& rule, bool isImported) {
  return hashOf(fmt::format("{} {} {}", isImported ? "imported" : "own", parametersJson(rule).dump(),
                            jsonText(isImported ? rule.pattern : fromOwnLine(rule))));
}

json ruleJson(const Rule& rule, bool isImported, const std::set<std::string>& held) {
  std::string fingerprint = fingerprintOf(rule, isImported);
  const bool isHeld = held.contains(fingerprint);
  json out = {{"name", rule.name},
              {"description", rule.description},
              {"line", isImported ? 0 : rule.line},
              {"finds", !rule.replacement.has_value()},
              {"fingerprint", std::move(fingerprint)}};
  if (isImported) out["importedFrom"] = rule.file;
  if (isHeld) return out;
  out["parameters"] = parametersJson(rule);
  out["pattern"] = toJson(rule.pattern);
  out["patternLines"] = isImported ? json::object() : linesJson(rule);
  return out;
}

}  // namespace

json rulesJson(const RuleFile& file, const std::set<std::string>& held) {
  json rules = json::array(), recipes = json::array();
  for (const Rule& r : file.rules) rules.push_back(ruleJson(r, r.file != file.path, held));
  for (const Recipe& r : file.recipes) {
    json steps = json::array();
    for (const Step& step : r.steps) steps.push_back(step.name);
    recipes.push_back({{"name", r.name}, {"description", r.description}, {"steps", std::move(steps)}});
  }
  return {{"ok", true}, {"rules", std::move(rules)}, {"recipes", std::move(recipes)}};
}

}  // namespace graft
