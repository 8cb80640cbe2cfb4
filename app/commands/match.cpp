// graft match: where rules match.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/match.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::RuleMatches;

struct MatchFlags : Common {
  std::vector<std::string> models;
  std::string rules, rule;
  std::vector<std::string> expect;
};

/// Why a rule matches nowhere: for a single rule the nearest miss, for several where to ask.
void tellUnmatched(const MatchFlags& o, const std::string& path, const Graph& g, const RuleFile& file,
                   const std::vector<const Rule*>& unmatched, const Console& console) {
  if (unmatched.empty()) return;
  if (unmatched.size() > 1 || (o.rule.empty() && file.rules.size() > 1))
    return console.note(whyHint(path, o.rules, unmatched.size() == 1 ? unmatched[0]->name : "NAME"));
  const Rule& rule = *unmatched[0];
  const auto why = workbench::explain(g, rule, "", file.path, semantics().operators(), {"", 1, false});
  if (!why) return;
  if (why->nearMisses.empty()) return console.note(fmt::format("{}: {}", rule.name, why->nothingNear));
  const workbench::NearMissReport& n = why->nearMisses[0];
  console.note(fmt::format("{}: {} of {} nodes at {} in {}: {}; `graft explain {} --rules {} --rule {}` says more",
                           rule.name, n.matched, n.total, n.at.value_or("?"), n.scope.empty() ? "the model" : n.scope,
                           n.message, path, o.rules, rule.name));
}

std::string matchesTable(const workbench::MatchReport& found) {
  std::vector<std::vector<std::string>> rows{{"rule", "matches", "where"}};
  for (const RuleMatches& r : found.rules) {
    std::vector<std::string> where;
    for (const workbench::MatchPlace& p : r.places) where.push_back(p.scope.empty() ? "(model)" : p.scope);
    rows.push_back(
        {r.rule, r.budgetExceeded ? "budget exceeded" : std::to_string(r.places.size()), firstFew(where, 3)});
  }
  return table(rows);
}

using Expectations = std::vector<workbench::Expectation>;

Status matchOne(const MatchFlags& o, const std::string& path, const RuleFile& file, const Expectations& expected,
                const Console& console, json& reports) {
  auto m = openModel(path, o, console.job());
  if (!m) return m.error();
  if (Status s = recordGivenTypes(*m, o, console); !s) return s;
  const Graph& g = m->graph;
  const workbench::MatchedModel found{path, m->format, g.nodeCount(), workbench::match(g, file, o.rule)};
  console.print(fmt::format("{}: {}, matched in {:.2f} ms\n", console.bold(path), counted(g.nodeCount(), "node"),
                            found.report.milliseconds));
  console.print(matchesTable(found.report));
  std::vector<const Rule*> unmatched;
  for (const RuleMatches& r : found.report.rules)
    if (r.places.empty() && !r.budgetExceeded) unmatched.push_back(file.findRule(r.rule));
  tellUnmatched(o, path, g, file, unmatched, console);
  reports.push_back(toJson(found));
  for (const auto& [rule, count] : expected) {
    const auto row = std::find_if(found.report.rules.begin(), found.report.rules.end(),
                                  [&, name = rule](const RuleMatches& r) { return r.rule == name; });
    const size_t matches = row == found.report.rules.end() ? 0 : row->places.size();
    if (matches != count)
      return Error{ErrorKind::Expectation,
                   fmt::format("{}: {} matched {}, expected {}. `graft explain {} --rules {} --rule {}` says why.",
                               path, rule, counted(matches, "time"), count, path, o.rules, rule),
                   {}};
  }
  for (const RuleMatches& r : found.report.rules)
    if (r.budgetExceeded)
      console.warn(fmt::format("{}: the search ran out of steps, so there may be more matches", r.rule));
  return done();
}

Status match(const MatchFlags& o) {
  const Console console(o.printing);
  auto file = workbench::loadRules(o.rules, semantics().operators());
  if (!file) return file.error();
  if (!o.rule.empty())
    if (auto known = workbench::ruleNamed(*file, o.rule); !known) return known.error();
  Expectations expected;
  for (const std::string& e : o.expect) {
    auto wanted = parseExpectation(e, *file);
    if (!wanted) return wanted.error();
    expected.push_back(std::move(*wanted));
  }
  json reports = json::array();
  const Status status = forEachModel(
      o.models, console, [&](const std::string& path) { return matchOne(o, path, *file, expected, console, reports); });
  console.document(workbench::documentOfModels(std::move(reports)));
  return status;
}

}  // namespace

void addMatch(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("match", "Find where each rule matches; changes nothing");
  auto o = std::make_shared<MatchFlags>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--rule", o->rule, "Only this rule");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 where the rule matches another number of times");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return match(*o); }; });
}

}  // namespace graft::cli
