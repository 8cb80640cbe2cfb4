#include "app/json/rewrites_json.h"

#include "app/json/list_json.h"
#include "core/json/finite.h"

namespace graft {

using nlohmann::json;

namespace {

json pairs(const std::vector<std::pair<std::string, std::string>>& list) {
  json out = json::array();
  for (const auto& [a, b] : list) out.push_back({a, b});
  return out;
}

json mapJson(const workbench::NodePairs& map) {
  json out = json::object();
  for (const auto& [pattern, node] : map) out[pattern] = node;
  return out;
}

}  // namespace

json toJson(const RewriteVerification& v) {
  json out = {{"verdict", verdictName(v.verdict)}, {"inputSets", v.inputSets}};
  if (!v.why.empty()) out["why"] = v.why;
  using Verdict = RewriteVerification::Verdict;
  if (v.verdict != Verdict::Failed && v.verdict != Verdict::Measured) return out;
  out["inputs"] = v.inputs;
  out["inputShapes"] = v.inputShapes;
  out["output"] = v.output;
  out["element"] = v.element;
  out["expected"] = v.expected;
  out["actual"] = v.actual;
  out["maxAbs"] = v.maxAbs;
  if (v.tolerance.empty()) return out;
  out["tolerance"] = v.tolerance;
  out["relativeRmse"] = finiteJson(v.relativeRmse);
  return out;
}

json toJson(const RolledBack& r) {
  return {{"node", r.node}, {"scope", r.scope}, {"nodes", r.nodes}, {"verification", toJson(r.verification)}};
}

json toJson(const Record& r) {
  json out = {{"rule", r.rule},
              {"scope", r.scope},
              {"removed", r.removedNames},
              {"added", r.addedNames},
              {"inputs", pairs(r.inputs)},
              {"outputs", pairs(r.outputs)},
              {"newWeights", r.newWeights},
              {"changesNumbers", r.changesNumbers}};
  for (const Record::Retyped& t : r.retyped)
    out["retyped"].push_back({{"value", t.value}, {"before", t.before}, {"after", t.after}});
  if (r.verification.verdict != RewriteVerification::Verdict::Unchecked) out["verification"] = toJson(r.verification);
  return out;
}

json toJson(const StepRun& s) {
  json out = {{"name", s.name},
              {"isRule", s.isRule},
              {"rewrites", s.records.size()},
              {"ms", s.milliseconds},
              {"refused", s.refused},
              {"rolledBack", listJson(s.rolledBack)},
              {"records", listJson(s.records)}};
  if (s.verification.verdict != RewriteVerification::Verdict::Unchecked) out["verification"] = toJson(s.verification);
  return out;
}

namespace workbench {

json toJson(const Verdicts& v) {
  json out = {
      {"verified", v.verified}, {"measured", v.measured}, {"unverified", v.unverified}, {"rolledBack", v.rolledBack}};
  if (!v.why.empty()) out["why"] = v.why;
  return out;
}

json toJson(const RuleMatches& r) {
  json at = json::array();
  for (const MatchPlace& p : r.places) at.push_back({{"scope", p.scope}, {"nodes", p.nodes}, {"map", mapJson(p.map)}});
  return {{"name", r.rule}, {"matches", r.places.size()}, {"budgetExceeded", r.budgetExceeded}, {"at", std::move(at)}};
}

json toJson(const NearMissReport& n) {
  json edits = json::array();
  for (const TextEdit& e : n.edits)
    edits.push_back({{"begin", e.begin}, {"end", e.end}, {"line", e.line}, {"before", e.before}, {"after", e.after}});
  return {{"matched", n.matched},
          {"total", n.total},
          {"at", n.at ? json(*n.at) : json(nullptr)},
          {"patternNode", n.inPattern ? json(*n.inPattern) : json(nullptr)},
          {"reason", n.reason},
          {"parameter", n.parameter},
          {"expected", n.expected},
          {"actual", n.actual},
          {"message", n.message},
          {"suggestion", n.suggestion},
          {"edits", std::move(edits)},
          {"line", n.line},
          {"scope", n.scope},
          {"map", mapJson(n.map)}};
}

json toJson(const Mistake& m) {
  return {{"ok", false},
          {"rules", json::array()},
          {"recipes", json::array()},
          {"error", {{"message", m.message}, {"line", m.line}, {"column", m.column}, {"endColumn", m.column + 1}}}};
}

}  // namespace workbench
}  // namespace graft
