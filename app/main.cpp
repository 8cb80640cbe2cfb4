// graft: the command line. Each command lives in app/commands/.
#include <fmt/format.h>

#include <exception>

#include "app/cli.h"
#include "app/version.h"

int main(int argc, char** argv) {
  CLI::App app{"See inside a PyTorch model and make it faster: import, match, rewrite, prove, export."};
  app.set_version_flag("--version", graft::versionText());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 wrong usage, 3 bad input, 4 unexpected number of matches,\n"
      "5 failed verification, 6 no such device, 130 interrupted. `graft COMMAND --help` explains each.");
  graft::cli::Run run;
  for (auto add :
       {graft::cli::addInfo, graft::cli::addReport, graft::cli::addCode, graft::cli::addText, graft::cli::addDraw, graft::cli::addRun,
        graft::cli::addMatch, graft::cli::addExplain, graft::cli::addApply, graft::cli::addCompare,
        graft::cli::addBench, graft::cli::addProfile, graft::cli::addKernels, graft::cli::addEngine})
    add(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    const graft::Status status = run();
    if (status) return 0;
    fmt::print(stderr, "graft: {}\n", status.error().format());
    if (status.error().kind == graft::ErrorKind::Internal)
      fmt::print(stderr, "This is a defect of Graft: please report it.\n");
    return graft::cli::exitCode(status.error().kind);
  } catch (const std::exception& e) {
    fmt::print(stderr, "graft: internal error: {}\nThis is a defect of Graft: please report it.\n", e.what());
    return 1;
  }
}
