// Passes: steps of a recipe that are not rules. Each is one file in matcher/passes/ and one line in the table of
// passes.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "matcher/rewrite/rewrite.h"

namespace graft {

struct Pass {
  std::string name;         ///< "remove_dropout"
  std::string description;  ///< one line for --help and the GUI
  std::function<Result<std::vector<Record>>(Graph&, const Semantics&, const Step&)> run;
};

/// All passes, by name: normalize, remove_dropout, fold_constants, eliminate_common, eliminate_dead, decompose, half,
/// swap_module, …
std::span<const Pass> passes();
const Pass* findPass(std::string_view name);

/// Runs a recipe's steps in order on `graph`: one entry per step. A count that differs from `expect` is an Expectation
/// error. With a check, rewrites that fail it are taken back and the rest goes on.
struct StepRun {
  std::string name;
  bool isRule = false;
  std::vector<Record> records;
  std::vector<std::string> refused;
  std::vector<RolledBack> rolledBack;  ///< a pass is taken back as a whole: one entry without a node
  RewriteVerification verification;    ///< of a pass that changed something, where one was asked for
  double milliseconds = 0;
};
struct RecipeRun {
  std::vector<StepRun> steps;
};
/// `onStep` may look at the graph after each step (for history and proofs); may be empty.
Result<RecipeRun> runRecipe(Graph& graph, const RuleFile& file, const Recipe& recipe, const Semantics& semantics,
                            const std::function<void(const StepRun&, const Graph&)>& onStep = {},
                            const RewriteOptions& options = {});

}  // namespace graft
