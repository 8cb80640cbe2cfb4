// Rules: what a model is matched and rewritten by, and the errors where a name is none of a rule file's.
//
//   auto chosen = workbench::loadRecipe("transformer.py", "Encoder", operators);   // {file, recipe}
//   RuleText editor;                                                               // a text that is being edited
//   const Result<RuleFile>& file = editor.read(text, "rules.py", operators);       // read again only where it changed
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "matcher/passes/passes.h"
#include "matcher/rule/pattern.h"

namespace graft::workbench {

struct ChosenRecipe {
  RuleFile file;
  Recipe recipe;
};
/// The rule file. Libraries of operators that it names are loaded: whoever gives a rule file to a command means that,
/// too.
Result<RuleFile> loadRules(const std::string& path, const OperatorSet&);
/// What reading a rule file came to.
struct CheckedRules {
  std::string file;
  std::vector<std::string> rules, recipes;  ///< their names
  std::optional<Error> mistake;             ///< the first; then there are no names
};
/// Libraries of operators that the file names are loaded, which runs their code, only where that is asked for.
CheckedRules checkRules(const std::string& path, const OperatorSet&, bool loadLibraries);
/// The rule file, and its recipe of that name; for an empty name all rules that have a replacement, in the file's
/// order. Errors: those of loadRules; Usage where there is no such recipe; BadInput where no rule has a replacement.
Result<ChosenRecipe> loadRecipe(const std::string& path, const std::string& name, const OperatorSet&);
Result<Recipe> chooseRecipe(const RuleFile&, const std::string& name);
/// The recipe's first steps. The numbers of rewrites that it expects are those of all steps: they are dropped where
/// steps are left out. Usage where it has fewer steps.
Result<Recipe> firstSteps(const Recipe&, size_t count);

/// Has each step `fuse` of the recipe follow that plan: the path of a fusion.json, or its text. Usage where the recipe
/// has no such step; BadInput where it is no plan.
Status steerFusion(Recipe&, const std::string& plan);
/// Has the recipe's passes that tell a GPU from a CPU (`fuse`, `split_bias`, `channels_last`) plan for the device that
/// the model will run on, "cuda" or "cuda:1", also where it was traced elsewhere. A step that says `gpu=` itself stays
/// as it is, as do all for "cpu".
void planForDevice(Recipe&, const std::string& device);

/// Usage: "rules.py has no rule Attn; did you mean Attention?"
Result<const Rule*> ruleNamed(const RuleFile&, const std::string& name);

/// A rule, and how many times it is to match or to rewrite.
using Expectation = std::pair<std::string, size_t>;

/// Whether a step rewrote, refused and took back nothing, and whether a whole recipe did so.
bool foundNothing(const StepRun&);
bool foundNothing(const std::vector<StepRun>&);
/// Whether the recipe left the model as it was. Passes that only tidy up count where the recipe has no rules: beside
/// rules that matched nowhere, nobody asked for them alone.
bool rewroteNothing(const std::vector<StepRun>&);
/// The steps that compute something else on purpose, with commas between: rules that say so, `half`, `swap_module`.
std::string changingSteps(const std::vector<StepRun>&);

/// A rule file's text as an editor holds it. Libraries that it names are not loaded, as one may only want to read it:
/// naming one that nobody loaded is an error. Reading the same text twice parses it once, unless a file that it imports
/// has changed meanwhile.
class RuleText {
 public:
  const Result<RuleFile>& read(std::string text, std::string file, const OperatorSet&);

 private:
  bool isCurrent() const;

  std::string text_, file_;
  std::optional<Result<RuleFile>> rules_;
  std::vector<std::pair<std::string, std::filesystem::file_time_type>> imports_;  ///< as they were when they were read
};

/// Where an editor that shows `file` marks a mistake of it. One in an imported file is marked where the import stands,
/// and its message begins with its own place.
struct Mistake {
  std::string message;
  int line = 0, column = 0;  ///< from 1; 0: unknown
};
Mistake mistakeIn(const std::string& file, std::string_view text, const Error&);

}  // namespace graft::workbench
