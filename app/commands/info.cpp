// graft info, report, code, text and modules: what a file is and holds, and what a recipe would make of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/differences.h"
#include "app/models.h"
#include "core/ir/used_symbols.h"
#include "core/json/graph_json.h"
#include "core/text/fx_table.h"
#include "core/text/module_tree.h"
#include "core/text/python_code.h"
#include "core/text/text.h"
#include "core/torch/literal.h"
#include "matcher/passes/passes.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::string model;
  std::string method = "forward";
  std::string rules, recipe;
};

std::string bytes(size_t n) {
  if (n >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(n) / 1e6);
  return n >= 1000 ? fmt::format("{:.1f} kB", static_cast<double>(n) / 1e3) : fmt::format("{} B", n);
}

std::vector<std::pair<std::string, size_t>> counted(const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<std::string, size_t>> out(counts.begin(), counts.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

Status info(const Options& o) {
  const Console console(o);
  auto m = importModel(o.model, semantics(), {o.method}, console.job());
  if (!m) return m.error();
  const Graph& g = m->graph;
  std::map<std::string, size_t> operators, modules;
  for (NodeId n : g.order()) ++operators[g.node(n).op->name];
  for (const ModuleCall& c : g.moduleCalls()) ++modules[c.type];
  size_t elements = 0;
  for (ValueId w : g.weights()) {
    size_t n = 1;
    if (const auto& shape = g.value(w).type.tensorInfo.shape)
      for (const Dim& d : *shape) n *= static_cast<size_t>(std::max<int64_t>(d.size, 0));
    elements += n;
  }
  if (console.json()) {
    json doc = {{"model", o.model},
                {"format", m->format->name},
                {"name", g.name},
                {"nodes", g.nodeCount()},
                {"bytes", m->fileBytes},
                {"weights", {{"count", g.weights().size()}, {"elements", elements}, {"bytes", m->weightBytes}}},
                {"operators", operators},
                {"modules", modules},
                {"methods", m->methods},
                {"operatorLibraries", m->operatorLibraries},
                {"notes", m->notes}};
    doc["inputs"] = json::array();
    for (ValueId v : g.inputs())
      doc["inputs"].push_back({{"name", g.value(v).name}, {"type", toString(g.value(v).type)}});
    doc["symbols"] = symbolsJson(g);
    doc["outputs"] = json::array();
    for (const Argument& r : g.returns()) doc["outputs"].push_back(toJson(g, r));
    console.document(doc);
    return done();
  }
  console.print(fmt::format("{}  {} {}, {}", console.bold(g.name.empty() ? o.model : g.name), m->format->name, o.model,
                            bytes(m->fileBytes)));
  for (ValueId v : g.inputs())
    console.print(fmt::format("  input   {} : {}", g.value(v).name, toString(g.value(v).type)));
  for (const Symbol& s : usedSymbols(g)) console.print(fmt::format("  size    {} in {}", s.name, rangeText(s)));
  for (const Argument& r : g.returns()) {
    std::string type;
    r.forEachValue([&](ValueId v) { type += (type.empty() ? "" : ", ") + toString(g.value(v).type); });
    console.print(fmt::format("  output  {} : {}", toText(r, g), type));
  }
  console.print(fmt::format("  {} nodes, {} module calls, {} weights ({} in {:.1f} million elements)", g.nodeCount(),
                            g.moduleCalls().size(), g.weights().size(), bytes(m->weightBytes),
                            static_cast<double>(elements) / 1e6));
  if (!m->methods.empty()) console.print(fmt::format("  other methods: {}", fmt::join(m->methods, ", ")));
  if (!m->operatorLibraries.empty())
    console.print(fmt::format("  needs operator libraries: {}", fmt::join(m->operatorLibraries, ", ")));
  size_t guards = 0;
  for (const std::string& note : m->notes)
    if (note.starts_with("guard: "))
      ++guards;
    else
      console.print("  " + note);
  if (guards > 0) console.print(fmt::format("  captured under {} guards; --json lists them", guards));
  std::vector<std::vector<std::string>> rows{{"operator", "count"}};
  for (const auto& [name, count] : counted(operators)) rows.push_back({name, std::to_string(count)});
  console.print("\n" + table(rows));
  rows = {{"module", "calls"}};
  for (const auto& [name, count] : counted(modules))
    rows.push_back({name.empty() ? "(unknown type)" : name, std::to_string(count)});
  if (rows.size() > 1) console.print(table(rows));
  return done();
}

Status show(const Options& o, const std::function<Result<std::string>(const Graph&, const CallNames&)>& form) {
  const Console console(o);
  auto m = openModel(o.model, o, {o.method}, console.job());
  if (!m) return m.error();
  if (o.givesInputs())
    if (auto inputs = typedInputs(*m, o); !inputs) return inputs.error();
  CallNames kept;
  const bool rewritten = !o.rules.empty();
  if (rewritten) {
    auto rules = loadRecipe(o.rules, o.recipe);
    if (!rules) return rules.error();
    auto run = runRecipe(m->graph, rules->file, rules->recipe, semantics());
    if (!run) return run.error();
    for (const StepRun& s : run->steps)
      for (const Record& r : s.records)
        for (const auto& [path, name] : r.keptModules) kept.insert_or_assign(path, name);
    if (rewroteNothing(*run))
      console.warn("nothing was rewritten; " + whyHint(o.model, *rules));
    else
      console.note("not verified: nothing compared what the rules made with the model; `graft apply` does");
  } else if (!o.recipe.empty()) {
    return Error{ErrorKind::Usage, "--recipe names a recipe of a rule file: give it with --rules FILE", {}};
  }
  if (console.json()) {
    json document = toJson(m->graph);
    if (rewritten) document["verify"] = notVerifiedJson();
    console.document(document);
    return done();
  }
  auto text = form(m->graph, kept);
  if (!text) return text.error();
  console.print(*text);
  return done();
}

void addShow(CLI::App& app, Run& run, const char* name, const char* help, std::function<Status(const Options&)> f) {
  auto* c = app.add_subcommand(name, help);
  auto o = std::make_shared<Options>();
  c->add_option("model", o->model, modelHelp())->required()->type_name("MODEL");
  c->add_option("--method", o->method, "Which method of a TorchScript module, or which graph of an FX file")
      ->capture_default_str();
  const bool shows = std::string_view(name) != "info";
  if (shows) {
    c->add_option("--rules", o->rules, "Show the graph as a recipe of this rule file leaves it")->type_name("FILE");
    c->add_option("--recipe", o->recipe, "The recipe; without it all rules of the file, in its order");
  }
  addCommon(*c, *o, shows);
  c->callback([&run, o, f] { run = [o, f] { return f(*o); }; });
}

}  // namespace

void addInfo(CLI::App& app, Run& run) {
  addShow(app, run, "info", "What the file is: format, inputs, outputs, operators, modules, weights", info);
}
void addReport(CLI::App& app, Run& run) {
  addShow(app, run, "report", "The FX-style table of nodes and the table of used modules",
          [](const Options& o) { return show(o, fxReport); });
}
void addCode(CLI::App& app, Run& run) {
  addShow(app, run, "code", "The graph as Python, as torch.fx shows it", [](const Options& o) {
    return show(o, [](const Graph& g, const CallNames&) { return pythonCode(g, tensorLiteral); });
  });
}
void addModules(CLI::App& app, Run& run) {
  addShow(app, run, "modules",
          "The module tree, as Python prints a module, with the operators that rewriting put in it",
          [](const Options& o) { return show(o, [](const Graph& g, const CallNames&) { return moduleTree(g); }); });
}
void addText(CLI::App& app, Run& run) {
  addShow(app, run, "text", "The canonical readable form of the graph",
          [](const Options& o) { return show(o, [](const Graph& g, const CallNames&) { return toText(g); }); });
}

}  // namespace graft::cli
