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

using Form = std::function<Result<std::string>(const ShownModel&)>;

void addShow(CLI::App& app, Run& run, const char* name, const char* help, const Form& form) {
  auto* c = app.add_subcommand(name, help);
  auto o = std::make_shared<ShowFlags>();
  addShowOptions(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o, form] {
    run = [o, form]() -> Status {
      const Console console(o->printing);
      auto shown = loadShown(*o, console);
      return shown ? printShown(*shown, console, form) : shown.error();
    };
  });
}

}  // namespace

void addShowOptions(CLI::App& c, ShowFlags& flags) {
  c.add_option("model", flags.model, modelHelp())->required()->type_name("MODEL");
  c.add_option("--rules", flags.rules, "Show the graph as a recipe of this rule file leaves it")->type_name("FILE");
  c.add_option("--recipe", flags.recipe, "The recipe to run; without it, all rules of the file run in its order");
  addMethodOption(c, flags);
}

Result<ShownModel> loadShown(const ShowFlags& o, const Console& console, bool isForGpu) {
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  auto shown = workbench::show({{o.model, methodOf(o), inputs->dtype}, *inputs, o.rules, o.recipe, isForGpu},
                               semantics(), console.job());
  if (!shown) return shown;
  if (shown->foundNothing)
    console.warn("nothing was rewritten; " + whyHint(o.model, *shown->rules));
  else if (shown->isRewritten)
    console.note("not verified: nothing compared what the rules made with the model; `graft apply` does");
  return shown;
}

Status printShown(const ShownModel& shown, const Console& console, const Form& form) {
  if (console.json()) {
    console.document(workbench::document(toJson(shown)));
    return done();
  }
  auto text = form(shown);
  if (!text) return text.error();
  console.print(*text);
  return done();
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
