// Passes and recipes: the steps of a recipe are rules and passes, run in order.
//
// Each pass is one file of this folder, NAME.cpp, which ends with GRAFT_PASS(NAME, …) (pass.h); the build finds it by
// its name. Other folders include this header; pass.h is for the passes themselves.
//
//   for (const Pass& p : passes()) print(p.name, p.arguments, p.help);
//   Result<RecipeRun> run = runRecipe(graph, file, recipe, semantics);
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "matcher/rewrite/rewrite.h"

namespace graft {

/// A step of a recipe that is no rule.
struct Pass {
  std::string_view name;       ///< as recipes write it: "swap_module"
  std::string_view arguments;  ///< as recipes write them: "nn.GELU, nn.ReLU"; empty: it takes none
  std::string_view help;       ///< one line
  /// Changes the graph through the editor, which keeps a record of each change.
  Status (*run)(GraphEditor& editor, const Step& step);
  /// It asks the editor's check before each edit, and takes back those that fail. Other passes are checked, and taken
  /// back, as a whole.
  bool checksEdits = false;
  /// A recipe of rules that all find nothing has rewritten something where this pass has. Others without arguments
  /// tidy.
  bool rewrites = false;
};

/// Whether the pass lists that keyword among its arguments: "gpu" of "only=[…], gpu=True".
bool takesKeyword(const Pass&, std::string_view keyword);

/// All passes, by name.
std::span<const Pass> passes();
/// Null where there is none of that name.
const Pass* findPass(std::string_view name);

/// What one step of a recipe did.
struct StepRun {
  std::string name;
  bool isRule = false;  ///< its records are rewrites, each checked by itself: a rule, or a pass that checks its edits
  std::vector<Record> records;
  std::vector<std::string> refused;
  std::vector<RolledBack> rolledBack;  ///< a pass is taken back as a whole: one entry without a node
  RewriteVerification verification;    ///< of a pass that changed something, where one was asked for
  double milliseconds = 0;
};
struct RecipeRun {
  std::vector<StepRun> steps;
};
/// Runs a recipe's steps in order on `graph`: one entry per step. A count that differs from `expect` is an Expectation
/// error. With a check, rewrites that fail it are taken back and the rest goes on. `onStep` may look at the graph after
/// each step (for history and verification); may be empty.
Result<RecipeRun> runRecipe(Graph& graph, const RuleFile& file, const Recipe& recipe, const Semantics& semantics,
                            const std::function<void(const StepRun&, const Graph&)>& onStep = {},
                            const RewriteOptions& options = {});

/// Whether the pass swap_module knows the module: an activation of torch.nn. Others are swapped by a rule.
bool isActivationModule(std::string_view shortName);

}  // namespace graft
