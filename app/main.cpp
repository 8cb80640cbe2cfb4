// graft: the command line. Each command lives in app/commands/.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "app/commands/options.h"
#include "app/version.h"
#include "core/base/child.h"
#include "core/base/suggest.h"
#include "core/torch/warnings.h"

namespace {

std::vector<std::string> commandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* c : app.get_subcommands({})) names.push_back(c->get_name());
  return names;
}

bool isCommand(const CLI::App& app, const std::string& name) {
  const auto names = commandNames(app);
  return std::find(names.begin(), names.end(), name) != names.end();
}

int unknownCommand(const CLI::App& app, const std::string& name) {
  const auto names = commandNames(app);
  const auto near = graft::nearestName(name, names);
  fmt::print(stderr, "graft: there is no command {}{}; `graft --help` lists them\n", name,
             near ? ", did you mean " + *near + "?" : "");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  graft::endWithStarter();
  graft::printWarningsOnce();
  CLI::App app{"See inside a PyTorch model and make it faster: open, match, rewrite, verify, write."};
  app.set_version_flag("--version", graft::versionText());
  app.set_help_all_flag("--help-all", "Print this help and that of every command, and exit");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 wrong usage, 3 bad input, 4 unexpected number of matches,\n"
      "5 failed verification, 6 no such device, 7 nothing to rewrite, 130 interrupted. `graft COMMAND --help` explains "
      "each.");
  graft::cli::Run run;
  for (auto add : {graft::cli::addInfo,      graft::cli::addReport, graft::cli::addCode,       graft::cli::addText,
                   graft::cli::addModules,   graft::cli::addDraw,   graft::cli::addRun,        graft::cli::addMatch,
                   graft::cli::addCheck,     graft::cli::addTest,   graft::cli::addExplain,    graft::cli::addOptimize,
                   graft::cli::addApply,     graft::cli::addBatch,  graft::cli::addConvert,    graft::cli::addCompare,
                   graft::cli::addPartition, graft::cli::addBench,  graft::cli::addProfile,    graft::cli::addKernels,
                   graft::cli::addEngine,    graft::cli::addGui,    graft::cli::addCompletion, graft::cli::addMan})
    add(app, run);
  // CLI11 would call an unknown command a missing one.
  if (argc > 1 && argv[1][0] != '-' && !isCommand(app, argv[1])) return unknownCommand(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    graft::cli::Ending ending = graft::cli::loadGivenLibraries();
    if (ending.status) ending = run();
    if (!ending.status) {
      fmt::print(stderr, "graft: {}\n", ending.status.error().format());
      if (ending.status.error().kind == graft::ErrorKind::Internal)
        fmt::print(stderr, "This is a defect of Graft: please report it.\n");
    }
    return graft::cli::exitCode(ending);
  } catch (const std::exception& e) {
    fmt::print(stderr, "graft: internal error: {}\nThis is a defect of Graft: please report it.\n", e.what());
    return 1;
  }
}
