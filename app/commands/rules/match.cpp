// graft match: where rules match.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/match.h"
#include "app/workbench/optimize/advice.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::RuleMatches;

struct MatchFlags : Common {
  std::vector<std::string> models;
  std::string rules, rule, junit;
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

/// A row for each rule. Of several, those that match nowhere share one line, which names the first few.
std::string matchesTable(const workbench::MatchReport& found) {
  constexpr size_t kNamed = 4;
  std::vector<std::vector<std::string>> rows{{"rule", "matches", "where"}};
  std::vector<std::string> idle;
  for (const RuleMatches& r : found.rules) {
    if (found.rules.size() > 1 && r.places.empty() && !r.budgetExceeded) {
      idle.push_back(r.rule);
      continue;
    }
    std::vector<std::string> where;
    for (const workbench::MatchPlace& p : r.places) where.push_back(p.scope.empty() ? "(model)" : p.scope);
    rows.push_back(
        {r.rule, r.budgetExceeded ? "budget exceeded" : std::to_string(r.places.size()), firstFew(where, 3)});
  }
  if (idle.empty()) return table(rows);
  const std::string line = fmt::format("{} matched nothing: {}{}\n", counted(idle.size(), "rule"),
                                       firstFew(idle, kNamed), idle.size() > kNamed ? " (--json lists them)" : "");
  return rows.size() == 1 ? line : table(rows) + line;
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

/// Which of the recipes that come with Graft fit: what `graft match` says without --rules.
Status fitOne(const MatchFlags& o, const std::string& path, const std::vector<RuleFile>& shipped,
              const Console& console, json& reports) {
  const Job job = console.job();
  auto m = openModel(path, o, job);
  if (!m) return m.error();
  if (Status s = recordGivenTypes(*m, o, console); !s) return s;
  const auto start = std::chrono::steady_clock::now();
  workbench::FittedModel found{path, m->format, m->graph.nodeCount(), {}, {}, 0};
  found.fits = workbench::fittingRecipes(m->graph, shipped, semantics(), job);
  found.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
  const std::string title = fmt::format("{}: {}", console.bold(path), counted(found.nodes, "node"));
  if (found.fits.empty()) {
    found.advice = workbench::adviceFor(*m, nullptr, {}, shipped, semantics().operators(), job);
    console.print(title + ", and none of the recipes that come with Graft fits");
    for (const std::string& line : found.advice) console.print(line);
    reports.push_back(toJson(found));
    return done();
  }
  std::vector<std::vector<std::string>> rows{{"recipe", "rewrites", "nodes", "rules"}};
  for (const workbench::RecipeFit& f : found.fits) {
    std::vector<std::string> rules;
    for (const auto& [name, rewrites] : f.rules) rules.push_back(fmt::format("{} {}", name, rewrites));
    rows.push_back({f.recipe->name, std::to_string(f.rewrites), fmt::format("{} to {}", f.nodesBefore, f.nodesAfter),
                    firstFew(rules, 4)});
  }
  console.print(fmt::format("{}; these of Graft's recipes fit:\n", title));
  console.print(table(rows));
  const std::string inputs = o.inputs.empty() ? "" : " --inputs " + o.inputs;
  console.note(fmt::format(
      "`graft optimize {0}{3} -o OUT.pt` tries them all; `graft apply {0} --rules {1} --recipe {2}{3} -o OUT.pt` takes "
      "the first.",
      path, found.fits[0].file->path, found.fits[0].recipe->name, inputs));
  reports.push_back(toJson(found));
  return done();
}

Ending fit(const MatchFlags& o, const Console& console) {
  if (!o.rule.empty() || !o.expect.empty())
    return Error{ErrorKind::Usage, "--rule and --expect name rules of a file: give it by --rules", {}};
  auto shipped = workbench::loadShippedRules(semantics().operators());
  if (!shipped) return shipped.error();
  json reports = json::array();
  JUnitFile junit(o.junit, "graft match");
  const Ending ending = forEachModel(o.models, console, [&](const std::string& path) {
    return noted(junit, path, [&]() -> Ending { return fitOne(o, path, *shipped, console, reports); });
  });
  if (Status s = junit.write(); !s) return s;
  console.document(workbench::documentOfModels(std::move(reports)));
  return ending;
}

Ending match(const MatchFlags& o) {
  const Console console(o.printing);
  if (o.rules.empty()) return fit(o, console);
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
  JUnitFile junit(o.junit, "graft match");
  const Ending ending = forEachModel(o.models, console, [&](const std::string& path) {
    return noted(junit, path, [&]() -> Ending { return matchOne(o, path, *file, expected, console, reports); });
  });
  if (Status s = junit.write(); !s) return s;
  console.document(workbench::documentOfModels(std::move(reports)));
  return ending;
}

}  // namespace

void addMatch(CLI::App& app, Run& run) {
  auto* c =
      app.add_subcommand("match", "Find where each rule matches, or which of Graft's recipes fit; changes nothing");
  auto o = std::make_shared<MatchFlags>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file; without it, the recipes that come with Graft are tried")
      ->type_name("FILE");
  c->add_option("--rule", o->rule, "Only this rule");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 where the rule matches another number of times");
  addJUnitOption(*c, o->junit);
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return match(*o); }; });
}

}  // namespace graft::cli
