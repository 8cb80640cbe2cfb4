// What the commands that print a graph share: the rules that may run on it first, and what is said of them.
//
//   auto shown = loadShown(flags, console);
//   return shown ? printShown(*shown, console, form) : shown.error();
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "app/commands/options.h"
#include "app/workbench/info.h"

namespace graft::cli {

struct ShowFlags : Common {
  std::string model;
  std::string rules, recipe;
};
/// The model, --rules, --recipe and --method.
void addShowOptions(CLI::App& command, ShowFlags& flags);

/// Opens the model and runs the rules. Says that nothing was verified, or that they found nothing.
/// `isForGpu`: the recipe plans for a GPU.
Result<workbench::ShownModel> loadShown(const ShowFlags&, const Console&, bool isForGpu = false);
/// The text that `form` makes of it; with --json, the graph.
Status printShown(const workbench::ShownModel&, const Console&,
                  const std::function<Result<std::string>(const workbench::ShownModel&)>& form);

}  // namespace graft::cli
