// What commands are given besides options: several models, as files and folders, where one failing model never stops
// the others; and rules.
//
//   auto rules = loadRecipe("transformer.py", "Encoder");
//   runRecipe(graph, rules->file, rules->recipe, semantics());
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli.h"
#include "matcher/passes/passes.h"
#include "matcher/rule/pattern.h"

namespace graft::cli {

/// The named files, and from each folder the files with a model's ending (formatOfEnding), sorted by name. Inputs and
/// weights that torch.save wrote are skipped with a warning.
Result<std::vector<std::string>> modelFiles(const std::vector<std::string>& paths, const Console&);

/// "A model file: TorchScript (.pt), torch.fx (.fx) or torch.export (.pt2)": for `--help`.
std::string modelHelp();

/// Whether a model can be written to a path of that ending (exportFormat). Usage where not; of a picture's name it says
/// which command draws.
Status checkModelOutput(const std::string& path);

/// "Attention=12" as a rule of the file and a count.
Result<std::pair<std::string, size_t>> parseExpectation(const std::string& text, const RuleFile& file);

/// Calls f for each of modelFiles(paths). With one model its error is returned; with several each error is printed, the
/// rest goes on, and the first error is returned with a count.
Status forEachModel(const std::vector<std::string>& paths, const Console&,
                    const std::function<Status(const std::string&)>& f);

/// "rules.py has no rule Attn; did you mean Attention?"
Error noSuchRule(const RuleFile&, const std::string& rule);

/// "`graft explain model.pt --rules rules.py --rule NAME` says why a rule matches nowhere"
std::string whyHint(const std::string& model, const std::string& rules, const std::string& rule = "NAME");

/// Whether a step found no place at all, and a whole recipe none: nothing was rewritten, refused or taken back.
bool foundNothing(const StepRun&);
bool rewroteNothing(const RecipeRun&);

/// The steps that mean to compute something else, with commas between: rules that say so, `half`, `swap_module`.
std::string changingSteps(const RecipeRun&);

/// What to rewrite a model by.
struct ChosenRecipe {
  RuleFile file;
  Recipe recipe;
};
/// The rule file, and its recipe of that name; of an empty name all rules that have a replacement, in the file's order.
/// Errors: those of loadRuleFile; Usage where there is no such recipe; BadInput where no rule has a replacement.
Result<ChosenRecipe> loadRecipe(const std::string& path, const std::string& name);

/// The same of a recipe whose rules matched nothing: names the file's rule where it has but one.
std::string whyHint(const std::string& model, const ChosenRecipe&);

}  // namespace graft::cli
