// graft match and explain: where rules match, and why they do not.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cli.h"
#include "app/models.h"
#include "core/base/words.h"
#include "core/ir/normal_form.h"
#include "core/json/graph_json.h"
#include "matcher/lang/fix_it.h"
#include "matcher/lang/rule_file.h"
#include "matcher/report/rules_json.h"
#include "matcher/search/search.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::vector<std::string> models;
  std::string rules, rule, at;
  std::vector<std::string> expect;
  size_t limit = 10;
};

/// Conditions on shapes and dtypes need types; a format that carries none gets them from a run on the given inputs.
Status addTypes(Model& m, const Options& o) {
  if (!o.givesInputs()) return done();
  auto inputs = typedInputs(m, o);
  return inputs ? done() : inputs.error();
}

/// Where not even a near miss can be told: the operators that are there, each in a place where several things differ.
std::string nothingNear(const Graph& g, const Rule& rule) {
  std::set<std::string_view> wanted;
  for (NodeId n : rule.pattern.order()) wanted.insert(canonicalOperator(rule.pattern.node(n).op->name));
  std::map<std::string, size_t> there;
  for (NodeId n : g.order())
    if (wanted.contains(canonicalOperator(g.node(n).op->name))) ++there[std::string(g.node(n).op->packetName())];
  if (there.empty()) return "No place comes near: none of the pattern's operators is in the graph.";
  std::string names;
  for (const auto& [name, count] : there) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, count);
  return fmt::format(
      "No place comes near: of the pattern's operators the graph has {}, and wherever one stands, more "
      "than one thing differs.",
      names);
}

/// Why a rule matches nowhere: of a single one the nearest miss, of several where to ask.
void tellUnmatched(const Options& o, const std::string& path, const Matcher& matcher, const Graph& g,
                   const RuleFile& file, const std::vector<const Rule*>& unmatched, const Console& console) {
  if (unmatched.empty()) return;
  if (unmatched.size() > 1 || (o.rule.empty() && file.rules.size() > 1))
    return console.note(whyHint(path, o.rules, unmatched.size() == 1 ? unmatched[0]->name : "NAME"));
  const Rule& rule = *unmatched[0];
  SearchOptions search;
  search.explain = true;
  search.nearMisses = 1;
  const auto misses = matcher.findAll(rule, search).nearMisses;
  if (misses.empty()) return console.note(fmt::format("{}: {}", rule.name, nothingNear(g, rule)));
  const NearMiss& n = misses[0];
  console.note(fmt::format("{}: {} of {} nodes at {} in {}: {}; `graft explain {} --rules {} --rule {}` says more",
                           rule.name, n.matched, n.total, g.isAlive(n.at) ? g.node(n.at).name : "?",
                           n.scope.empty() ? "the model" : n.scope, n.message, path, o.rules, rule.name));
}

using Expectations = std::vector<std::pair<std::string, size_t>>;

Status matchOne(const Options& o, const std::string& path, const RuleFile& file, const Expectations& expected,
                const Console& console, json& documents) {
  auto m = openModel(path, o, {}, console.job());
  if (!m) return m.error();
  if (Status s = addTypes(*m, o); !s) return s;
  const Graph& g = m->graph;
  const auto start = std::chrono::steady_clock::now();
  const Matcher matcher(g);
  json rules = json::array();
  std::vector<std::vector<std::string>> rows{{"rule", "matches", "where"}};
  std::map<std::string, size_t> counts;
  std::string exceeded;
  std::vector<const Rule*> unmatched;
  for (const Rule& rule : file.rules) {
    if (!o.rule.empty() && rule.name != o.rule) continue;
    const SearchResult found = matcher.findAll(rule);
    if (found.budgetExceeded)
      exceeded = rule.name;
    else if (found.matches.empty())
      unmatched.push_back(&rule);
    counts[rule.name] = found.matches.size();
    rules.push_back({{"name", rule.name},
                     {"matches", found.matches.size()},
                     {"budget_exceeded", found.budgetExceeded},
                     {"at", matchesJson(g, rule, found.matches)}});
    std::vector<std::string> where;
    for (const auto& m : found.matches) where.push_back(m.scope.empty() ? "(model)" : m.scope);
    rows.push_back({rule.name, found.budgetExceeded ? "budget exceeded" : std::to_string(found.matches.size()),
                    firstFew(where, 3)});
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  console.print(fmt::format("{}: {}, matched in {:.2f} ms\n", console.bold(path), counted(g.nodeCount(), "node"), ms));
  console.print(table(rows));
  tellUnmatched(o, path, matcher, g, file, unmatched, console);
  documents.push_back(
      {{"model", path}, {"format", m->format->name}, {"nodes", g.nodeCount()}, {"ms", ms}, {"rules", rules}});
  for (const auto& [rule, count] : expected) {
    if (counts[rule] != count)
      return Error{ErrorKind::Expectation,
                   fmt::format("{}: {} matched {}, expected {}. `graft explain {} --rules {} --rule {}` says why.",
                               path, rule, counted(counts[rule], "time"), count, path, o.rules, rule),
                   {}};
  }
  if (!exceeded.empty())
    console.warn(fmt::format("{}: the search ran out of steps; its count is a lower bound", exceeded));
  return done();
}

Status match(const Options& o) {
  const Console console(o);
  auto file = loadRuleFile(o.rules, semantics().operators());
  if (!file) return file.error();
  if (!o.rule.empty() && !file->findRule(o.rule)) return noSuchRule(*file, o.rule);
  Expectations expected;
  for (const std::string& e : o.expect) {
    auto wanted = parseExpectation(e, *file);
    if (!wanted) return wanted.error();
    expected.push_back(std::move(*wanted));
  }
  json documents = json::array();
  const Status status = forEachModel(o.models, console, [&](const std::string& path) {
    return matchOne(o, path, *file, expected, console, documents);
  });
  console.document(documents.size() == 1 ? documents[0] : documents);
  return status;
}

Status explain(const Options& o) {
  const Console console(o);
  auto file = loadRuleFile(o.rules, semantics().operators());
  if (!file) return file.error();
  if (o.rule.empty() && file->rules.size() > 1)
    return Error{ErrorKind::Usage,
                 fmt::format("{} holds {} rules: name one with --rule, like --rule {}; `graft match` lists them",
                             o.rules, file->rules.size(), file->rules[0].name),
                 {}};
  const Rule* rule = o.rule.empty() && !file->rules.empty() ? &file->rules[0] : file->findRule(o.rule);
  if (!rule) return noSuchRule(*file, o.rule);
  auto m = openModel(o.models[0], o, {}, console.job());
  if (!m) return m.error();
  if (Status s = addTypes(*m, o); !s) return s;
  const Graph& g = m->graph;
  SearchOptions search;
  search.explain = true;
  search.nearMisses = o.limit;
  if (!o.at.empty()) {
    search.at = g.findNode(o.at);
    if (!search.at)
      return badInput(fmt::format("--at {}: {} has no node of that name; `graft text {}` lists them", o.at, o.models[0],
                                  o.models[0]));
  }
  SearchResult found = Matcher(g).findAll(*rule, search);
  console.print(fmt::format("{} matches {} {}.", rule->name, counted(found.matches.size(), "time"),
                            o.at.empty() ? "in " + counted(g.nodeCount(), "node") : "at " + o.at));
  if (found.budgetExceeded) console.warn("The search ran out of steps: there may be more.");
  json misses = json::array();
  std::ifstream in(o.rules, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  Healer healer(text, o.rules, semantics().operators(), g);
  for (NearMiss& n : found.nearMisses) {
    n.edits = healer.edits(*rule, n);
    misses.push_back(nearMissJson(g, *rule, n));
    const std::string where = n.scope.empty() ? "the model" : n.scope;
    console.print(fmt::format("\n{} of {} nodes at {} in {}\n  {}", n.matched, n.total,
                              g.isAlive(n.at) ? g.node(n.at).name : "?", where, n.message));
    if (n.line > 0) console.print(fmt::format("  the rule's line: {}:{}", rule->file, n.line));
    if (!n.suggestion.empty()) console.print("  try: " + n.suggestion);
    for (const TextEdit& e : n.edits)
      console.print(e.before.empty() ? fmt::format("  edit: in line {} put in `{}`", e.line, e.after)
                                     : fmt::format("  edit: in line {} `{}` becomes `{}`", e.line, e.before, e.after));
  }
  if (found.nearMisses.empty() && found.matches.empty()) console.print(nothingNear(g, *rule));
  console.document({{"model", o.models[0]},
                    {"rule", rule->name},
                    {"matches", found.matches.size()},
                    {"budget_exceeded", found.budgetExceeded},
                    {"near_misses", misses}});
  return done();
}

}  // namespace

void addMatch(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("match", "Where each rule matches; changes nothing");
  auto o = std::make_shared<Options>();
  c->add_option("models", o->models, "Models, or folders of them")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--rule", o->rule, "Only this rule");
  c->add_option("--expect", o->expect, "RULE=COUNT: exit with 4 when the rule matches another number of times");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return match(*o); }; });
}

void addExplain(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("explain", "Near misses of a rule, furthest first, with reasons and suggested edits");
  auto o = std::make_shared<Options>();
  c->add_option("model", o->models, "The model")->required()->expected(1)->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--rule", o->rule, "The rule to explain; may be left out where the file holds one");
  c->add_option("--at", o->at, "Only what was tried at this node")->type_name("NODE");
  c->add_option("--limit", o->limit, "How many near misses to show")->capture_default_str();
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return explain(*o); }; });
}

}  // namespace graft::cli
