// graft gui: starts the window, or says how to get it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/commands/options.h"

namespace graft::cli {
namespace {

constexpr const char* missing =
    "the window is not part of this installation. A second wheel has it: pip install graft_gui-*.whl (./dev wheel "
    "--gui makes it). The Debian package has it, too, and so has a build with Qt 6 and QScintilla: ./dev gui. The "
    "window may also run on another machine: graft-gui --engine \"ssh HOST graft engine\"";

/// Beside this program, as in a build and in an installed tree, or in the PATH. Returns only if it does not start.
Status startWindow(const std::vector<std::string>& words) {
  std::vector<std::string> all{"graft-gui"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::error_code none;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (const auto& place : {folder / "graft-gui", folder / "../../../bin/graft-gui"})
    if (std::filesystem::exists(place, none)) execv(place.c_str(), arguments.data());
  execvp("graft-gui", arguments.data());
  if (errno == ENOENT) return badInput(missing);
  return badInput(fmt::format("the window does not start: {}", std::strerror(errno)));
}

}  // namespace

void addGui(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("gui", "Open the window, where it is installed; else say how to get it");
  c->prefix_command();
  c->footer(
      "All words go to graft-gui: a model, --method NAME, --inputs FILE, --rules FILE, --engine COMMAND, --theme "
      "NAME.");
  c->callback([&run, c] { run = [c] { return startWindow(c->remaining()); }; });
}

}  // namespace graft::cli
