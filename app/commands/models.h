// Commands that take several models, as files and folders: one that fails never stops the others.
//
//   return forEachModel(options.models, console, [&](const std::string& path) { return matchOne(path); });
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/commands/options.h"
#include "app/console/console.h"
#include "app/console/junit.h"
#include "app/workbench/rules.h"

namespace graft::cli {

/// The named files, and from each folder the files with a model's ending (formatOfEnding), sorted by name. Inputs and
/// weights that torch.save wrote are no models: a warning names them, but for x.inputs.pt, a model's inputs beside it.
Result<std::vector<std::string>> modelFiles(const std::vector<std::string>& paths, const Console&);

/// Calls f for each of modelFiles(). With one model its ending is returned; with several each error is printed, the
/// rest goes on, and the first error is returned with a count. Of several, a model with nothing to do has not failed.
Ending forEachModel(const std::vector<std::string>& paths, const Console&,
                    const std::function<Ending(const std::string&)>& f);

/// --junit FILE.xml
void addJUnitOption(CLI::App& command, std::string& file);
/// What f returns for the model, which the file then tells of.
Ending noted(JUnitFile&, const std::string& model, const std::function<Ending()>& f);

/// "A model file: TorchScript (.pt), torch.fx (.fx) or torch.export (.pt2)": for `--help`.
std::string modelHelp();

/// Whether a model can be written to a path of that ending (exportFormat). Usage where not; for a picture's name the
/// message says which command draws.
Status checkModelOutput(const std::string& path);

/// "Attention=12" as a rule of the file and a count. Usage where it is none.
Result<workbench::Expectation> parseExpectation(const std::string& text, const RuleFile& file);

/// "`graft explain model.pt --rules rules.py --rule NAME` says why a rule matches nowhere"
std::string whyHint(const std::string& model, const std::string& rules, const std::string& rule = "NAME");
/// The same for a recipe whose rules matched nothing: names the file's rule where it has but one.
std::string whyHint(const std::string& model, const workbench::ChosenRecipe&);

}  // namespace graft::cli
