// graft explain: why a rule does not match.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/match.h"
#include "app/workbench/rules.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

struct ExplainFlags : Common {
  std::string model, rules, rule, at;
  size_t limit = 10;
};

void print(const workbench::NearMissReport& n, const Rule& rule, const Console& console) {
  console.print(fmt::format("\n{} of {} nodes at {} in {}\n  {}", n.matched, n.total, n.at.value_or("?"),
                            n.scope.empty() ? "the model" : n.scope, n.message));
  if (n.line > 0) console.print(fmt::format("  the rule's line: {}:{}", rule.file, n.line));
  if (!n.suggestion.empty()) console.print("  try: " + n.suggestion);
  for (const TextEdit& e : n.edits)
    console.print(e.before.empty() ? fmt::format("  edit: in line {} put in `{}`", e.line, e.after)
                                   : fmt::format("  edit: in line {} `{}` becomes `{}`", e.line, e.before, e.after));
}

Status explain(const ExplainFlags& o) {
  const Console console(o.printing);
  auto file = workbench::loadRules(o.rules, semantics().operators());
  if (!file) return file.error();
  if (o.rule.empty() && file->rules.size() > 1)
    return Error{ErrorKind::Usage,
                 fmt::format("{} holds {} rules: name one with --rule, like --rule {}; `graft match` lists them",
                             o.rules, file->rules.size(), file->rules[0].name),
                 {}};
  auto rule = workbench::ruleNamed(*file, o.rule.empty() && !file->rules.empty() ? file->rules[0].name : o.rule);
  if (!rule) return rule.error();
  auto m = openModel(o.model, o, console.job());
  if (!m) return m.error();
  if (Status s = recordGivenTypes(*m, o, console); !s) return s;
  const Graph& g = m->graph;
  if (!o.at.empty() && !g.findNode(o.at))
    return badInput(
        fmt::format("--at {}: {} has no node of that name; `graft text {}` lists them", o.at, o.model, o.model));
  std::ifstream in(o.rules, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto found = workbench::explain(g, **rule, text, o.rules, semantics().operators(), {o.at, o.limit});
  if (!found) return found.error();
  console.print(fmt::format("{} matches {} {}.", found->rule, counted(found->matches, "time"),
                            o.at.empty() ? "in " + counted(g.nodeCount(), "node") : "at " + o.at));
  if (found->budgetExceeded) console.warn("The search ran out of steps, so there may be more.");
  for (const workbench::NearMissReport& n : found->nearMisses) print(n, **rule, console);
  if (!found->nothingNear.empty()) console.print(found->nothingNear);
  console.document(workbench::document(toJson(workbench::ExplainedModel{o.model, std::move(*found)})));
  return done();
}

}  // namespace

void addExplain(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("explain", "Say why a rule does not match: near misses, with reasons and edits");
  auto o = std::make_shared<ExplainFlags>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("--rules", o->rules, "The rule file")->required()->type_name("FILE");
  c->add_option("--rule", o->rule, "The rule to explain; needed where the file holds several");
  c->add_option("--at", o->at, "Only what was tried at this node")->type_name("NODE");
  c->add_option("--limit", o->limit, "How many near misses to show")->capture_default_str();
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return explain(*o); }; });
}

}  // namespace graft::cli
