#include "matcher/report/rules_json.h"

#include <nlohmann/json.hpp>

namespace graft {

using nlohmann::json;

namespace {

json pairs(const std::vector<std::pair<std::string, std::string>>& list) {
  json out = json::array();
  for (const auto& [a, b] : list) out.push_back({a, b});
  return out;
}

}  // namespace

json matchesJson(const Graph& g, const Rule& rule, std::span<const Match> matches) {
  json out = json::array();
  for (const Match& m : matches) {
    json nodes = json::array(), map = json::object();
    for (NodeId n : m.nodes) nodes.push_back(g.node(n).name);
    for (NodeId p : rule.pattern.order())
      if (p.index < m.nodeOf.size() && m.nodeOf[p.index])
        map[rule.pattern.node(p).name] = g.node(m.nodeOf[p.index]).name;
    out.push_back({{"scope", m.scope}, {"nodes", std::move(nodes)}, {"map", std::move(map)}});
  }
  return out;
}

json nearMissJson(const Graph& g, const Rule& rule, const NearMiss& n) {
  json map = json::object();
  for (size_t i = 0; i < n.matchedPattern.size() && i < n.matchedNodes.size(); ++i)
    map[rule.pattern.node(n.matchedPattern[i]).name] = g.node(n.matchedNodes[i]).name;
  json edits = json::array();
  for (const TextEdit& e : n.edits)
    edits.push_back({{"begin", e.begin}, {"end", e.end}, {"line", e.line}, {"before", e.before}, {"after", e.after}});
  return {{"matched", n.matched},
          {"total", n.total},
          {"at", n.at ? json(g.node(n.at).name) : json(nullptr)},
          {"patternNode", n.patternNode ? json(rule.pattern.node(n.patternNode).name) : json(nullptr)},
          {"reason", reasonName(n.reason)},
          {"parameter", n.parameter},
          {"expected", n.expected},
          {"actual", n.actual},
          {"message", n.message},
          {"suggestion", n.suggestion},
          {"edits", std::move(edits)},
          {"line", n.line},
          {"scope", n.scope},
          {"map", std::move(map)}};
}

json verificationJson(const RewriteVerification& p) {
  json out = {{"verdict", verdictName(p.verdict)}, {"inputSets", p.inputSets}};
  if (!p.why.empty()) out["why"] = p.why;
  using V = RewriteVerification::Verdict;
  if (p.verdict != V::Failed && p.verdict != V::Measured) return out;
  out["inputs"] = p.inputs;
  out["inputShapes"] = p.inputShapes;
  out["output"] = p.output;
  out["element"] = p.element;
  out["expected"] = p.expected;
  out["actual"] = p.actual;
  out["maxAbs"] = p.maxAbs;
  return out;
}

json rolledBackJson(const std::vector<RolledBack>& list) {
  json out = json::array();
  for (const RolledBack& r : list)
    out.push_back(
        {{"node", r.node}, {"scope", r.scope}, {"nodes", r.nodes}, {"proof", verificationJson(r.verification)}});
  return out;
}

json recordJson(const Record& r) {
  json out = {{"rule", r.rule},
              {"scope", r.scope},
              {"removed", r.removedNames},
              {"added", r.addedNames},
              {"inputs", pairs(r.inputs)},
              {"outputs", pairs(r.outputs)},
              {"newWeights", r.newWeights},
              {"changesNumbers", r.changesNumbers}};
  if (r.verification.verdict != RewriteVerification::Verdict::Unchecked)
    out["proof"] = verificationJson(r.verification);
  return out;
}

json recipeJson(const RecipeRun& run) {
  json out = json::array();
  for (const StepRun& s : run.steps) {
    json records = json::array();
    for (const Record& r : s.records) records.push_back(recordJson(r));
    out.push_back({{"name", s.name},
                   {"rule", s.isRule},
                   {"rewrites", s.records.size()},
                   {"ms", s.milliseconds},
                   {"refused", s.refused},
                   {"rolledBack", rolledBackJson(s.rolledBack)},
                   {"records", std::move(records)}});
    if (s.verification.verdict != RewriteVerification::Verdict::Unchecked)
      out.back()["proof"] = verificationJson(s.verification);
  }
  return out;
}

}  // namespace graft
