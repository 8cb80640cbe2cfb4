// graft report, text and modules: a model's graph, or what rules would make of it, in three forms.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/commands/show.h"
#include "app/json/documents_json.h"
#include "app/workbench/info.h"
#include "core/text/fx_table.h"
#include "core/text/module_tree.h"
#include "core/text/text.h"

namespace graft::cli {
namespace {

using workbench::ShownModel;

struct ShowFlags : Common {
  std::string model;
  std::string rules, recipe;
};

using Form = std::function<Result<std::string>(const ShownModel&)>;

Status show(const ShowFlags& o, const Form& form) {
  const Console console(o.printing);
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  auto shown =
      workbench::show({{o.model, methodOf(o), inputs->dtype}, *inputs, o.rules, o.recipe}, semantics(), console.job());
  if (!shown) return shown.error();
  noteRules(*shown, o.model, console);
  if (console.json()) {
    console.document(workbench::document(toJson(*shown)));
    return done();
  }
  auto text = form(*shown);
  if (!text) return text.error();
  console.print(*text);
  return done();
}

void addShow(CLI::App& app, Run& run, const char* name, const char* help, const Form& form) {
  auto* c = app.add_subcommand(name, help);
  auto o = std::make_shared<ShowFlags>();
  addShowOptions(*c, o->model, o->rules, o->recipe);
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o, form] { run = [o, form] { return show(*o, form); }; });
}

}  // namespace

void addShowOptions(CLI::App& c, std::string& model, std::string& rules, std::string& recipe) {
  c.add_option("model", model, modelHelp())->required()->type_name("MODEL");
  c.add_option("--rules", rules, "Show the graph as a recipe of this rule file leaves it")->type_name("FILE");
  c.add_option("--recipe", recipe, "The recipe to run; without it, all rules of the file run in its order");
}

void noteRules(const ShownModel& shown, const std::string& model, const Console& console) {
  if (shown.foundNothing)
    console.warn("nothing was rewritten; " + whyHint(model, *shown.rules));
  else if (shown.isRewritten)
    console.note("not verified: nothing compared what the rules made with the model; `graft apply` does");
}

void addReport(CLI::App& app, Run& run) {
  addShow(app, run, "report", "Print the graph as torch.fx's table of nodes, and the modules that it uses",
          [](const ShownModel& s) { return fxReport(s.graph, s.keptModules); });
}
void addModules(CLI::App& app, Run& run) {
  addShow(app, run, "modules",
          "Print the tree of modules, as Python prints a module, with the operators that rewriting put in it",
          [](const ShownModel& s) { return moduleTree(s.graph); });
}
void addText(CLI::App& app, Run& run) {
  addShow(app, run, "text", "Print the graph in its canonical readable form",
          [](const ShownModel& s) { return toText(s.graph); });
}

}  // namespace graft::cli
