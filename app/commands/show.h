// What the commands that print a graph share: the rules that may run on it first, and what is said of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "app/console/console.h"
#include "app/workbench/info.h"

namespace graft::cli {

/// The model, --rules and --recipe.
void addShowOptions(CLI::App& command, std::string& model, std::string& rules, std::string& recipe);
/// Where rules were run: that nothing was verified, or that they found nothing.
void noteRules(const workbench::ShownModel&, const std::string& model, const Console&);

}  // namespace graft::cli
