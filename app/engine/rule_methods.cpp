// The engine's methods about rules: read, match, explain, apply.
#include <algorithm>
#include <set>

#include "app/engine/methods.h"
#include "app/json/list_json.h"
#include "app/json/rewrites_json.h"
#include "app/json/rules_json.h"
#include "app/workbench/apply.h"
#include "app/workbench/match.h"
#include "matcher/lang/names.h"

namespace graft {

using nlohmann::json;

namespace {

const char* const defaultFile = "rules.py";

std::vector<size_t> matchNumbers(const json& only) {
  const auto isNumber = [](const json& n) { return n.is_number_unsigned(); };
  if (!only.is_array() || !std::all_of(only.begin(), only.end(), isNumber))
    throw RpcError{-32602, "the parameter only must be a list of matches' numbers"};
  return only.get<std::vector<size_t>>();
}

std::set<std::string> fingerprints(const json& held) {
  const auto isText = [](const json& f) { return f.is_string(); };
  if (!held.is_array() || !std::all_of(held.begin(), held.end(), isText))
    throw RpcError{-32602, "the parameter held must be a list of fingerprints"};
  return held.get<std::set<std::string>>();
}

}  // namespace

const Result<RuleFile>& Session::Methods::parsed() const {
  return s.rules_.read(text("text"), params.value("file", std::string(defaultFile)), s.semantics_.operators());
}

const RuleFile& Session::Methods::rules() const {
  const Result<RuleFile>& file = parsed();
  if (!file) throw failure(file.error());
  return *file;
}

const Rule& Session::Methods::rule(const RuleFile& file) const {
  return *take(workbench::ruleNamed(file, text("rule")));
}

/// "held": the fingerprints of an earlier answer whose patterns the client still has; they are left out.
json Session::Methods::check() const {
  const std::set<std::string> held = fingerprints(params.value("held", json::array()));
  const Result<RuleFile>& file = parsed();
  if (file) return rulesJson(*file, held);
  return toJson(workbench::mistakeIn(params.value("file", std::string(defaultFile)), text("text"), file.error()));
}

json Session::Methods::match() const {
  const Document& d = s.document(params);
  const workbench::MatchReport found = workbench::match(d.graph(), rules(), has("rule") ? text("rule") : std::string());
  return {{"revision", d.history.revision()}, {"ms", found.milliseconds}, {"rules", listJson(found.rules)}};
}

json Session::Methods::explain() const {
  const Document& d = s.document(params);
  workbench::ExplainRequest request;
  if (has("at") && d.graph().findNode(text("at"))) request.at = text("at");
  const workbench::Explanation found =
      take(workbench::explain(d.graph(), rule(rules()), text("text"), params.value("file", std::string(defaultFile)),
                              s.semantics_.operators(), request));
  return {{"revision", d.history.revision()}, {"matches", found.matches}, {"nearMisses", listJson(found.nearMisses)}};
}

workbench::VerifyOn Session::Methods::verifyOn(const Document& d) const {
  workbench::VerifyOn on;
  if (d.inputs && !params.contains("inputs")) {
    on.inputs = d.inputs;
  } else if (auto inputs = workbench::inputsFor(d.history.original(), inputRequest())) {
    on.inputs = std::move(inputs->tensors);
    on.areRandom = !params.contains("inputs");
  } else if (params.contains("inputs")) {
    throw failure(inputs.error());
  } else {
    on.obstacle = "there are no inputs to try it on: " + inputs.error().message;
  }
  on.sizesAreOpen = !d.format->declaresSizes;
  return on;
}

json Session::Methods::rewrittenJson(const workbench::Rewritten& r) const {
  return {{"graph", graphField(r.graph)},
          {"records", listJson(r.records())},
          {"refused", r.refused()},
          {"rolledBack", listJson(r.rolledBack())},
          {"verdicts", toJson(r.verdicts)},
          {"steps", r.isRecipe ? listJson(r.steps) : json::array()},
          {"nodesBefore", r.nodesBefore},
          {"nodesAfter", r.graph.nodeCount()},
          {"ms", r.milliseconds}};
}

/// "recipe" (with "upTo": its first steps alone), or "rule" (with "only": the numbers of its matches). "verify" (true
/// unless it is a "preview"): each rewrite runs beside what it replaces, on the request's inputs, or those that the
/// model was opened with, or random ones of its inputs' types. What fails is taken back.
json Session::Methods::apply() const {
  Document& d = s.document(params);
  const RuleFile& file = rules();
  const bool isPreview = params.value("preview", false);
  workbench::RewriteRequest request;
  request.keepSubSteps = true;
  if (has("recipe")) {
    request.recipe = take(workbench::chooseRecipe(file, text("recipe")));
    if (const auto upTo = count("upTo")) request.recipe = takeParameter(workbench::firstSteps(*request.recipe, *upTo));
  } else {
    request.rule = text("rule");
    if (params.contains("only")) request.only = matchNumbers(params["only"]);
  }
  if (params.value("verify", !isPreview))
    request.verify = verifyOn(d);
  else
    request.verify.obstacle = "verification is switched off";
  workbench::Rewritten r = take(workbench::rewrite(d.graph(), file, request, s.semantics_, job));
  json out = rewrittenJson(r);
  std::vector<Record> records = r.records();
  if (!isPreview) d.history.add({std::move(r.graph), r.label, std::move(records), std::move(r.subSteps)});
  out["revision"] = d.history.revision();
  return out;
}

/// What the rule language can call here, for completion: "torch.softmax(self, dim, dtype)".
json Session::Methods::words() const {
  json out = json::array();
  for (const std::string& name : lang::callableNames()) out.push_back(name);
  return {{"words", std::move(out)}};
}

}  // namespace graft
