// graft check: reads rule files and says what is wrong with them, for editors and for CI. It runs no model.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/console/annotations.h"
#include "app/json/documents_json.h"
#include "app/workbench/rules.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

struct CheckFlags {
  Console::Options printing;
  std::vector<std::string> files;
  std::string format = "text";
  bool loadLibraries = false;
};

void tellMistake(const Error& e, const CheckFlags& o, const Console& console) {
  console.print(o.format == "github" ? annotation(e, "graft check") : e.format());
}

Status check(const CheckFlags& o) {
  const Console console(o.printing);
  std::vector<workbench::CheckedRules> checked;
  size_t wrong = 0;
  for (const std::string& file : o.files) {
    checked.push_back(workbench::checkRules(file, semantics().operators(), o.loadLibraries));
    const workbench::CheckedRules& c = checked.back();
    wrong += c.mistake.has_value();
    if (o.printing.json) continue;
    if (c.mistake)
      tellMistake(*c.mistake, o, console);
    else if (o.format == "text")
      console.print(
          fmt::format("{}: {}, {}", file, counted(c.rules.size(), "rule"), counted(c.recipes.size(), "recipe")));
  }
  console.document(workbench::document(workbench::toJson(checked)));
  if (wrong == 0) return done();
  return badInput(fmt::format("{} of {} are wrong", wrong, counted(o.files.size(), "rule file")));
}

}  // namespace

void addCheck(CLI::App& app, Run& run) {
  auto* c =
      app.add_subcommand("check", "Say what is wrong with rule files, without a model: a linter for editors and CI");
  auto o = std::make_shared<CheckFlags>();
  c->add_option("rules", o->files, "Rule files")->required()->type_name("FILE");
  addFormatOption(*c, o->format);
  c->add_flag(
      "--load-libraries", o->loadLibraries,
      "Load the libraries of operators that the files name, which runs their code; without this, rules that use "
      "their operators are wrong");
  addLibraryOption(*c);
  c->add_flag("--json", o->printing.json, "Print the result as one JSON document (docs/json describes it)");
  c->add_flag("-q,--quiet", o->printing.quiet, "Leave out progress and notes on stderr");
  c->footer("Each file is read as the other commands read it; nothing in it is executed. Exit code 3 if one is wrong.");
  c->callback([&run, o] { run = [o] { return check(*o); }; });
}

}  // namespace graft::cli
