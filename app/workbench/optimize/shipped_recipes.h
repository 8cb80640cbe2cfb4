// Shipped recipes: which of the recipes that come with Graft fit a model, found by running each on a copy of its graph.
//
//   auto shipped = workbench::loadShippedRules(operators);
//   for (const RecipeFit& fit : workbench::fittingRecipes(graph, *shipped, semantics, job))
//     fit.recipe->name, fit.rewrites                      // the one that changes most comes first
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/workbench/rules.h"
#include "core/base/progress.h"
#include "core/formats/model.h"

namespace graft::workbench {

/// The rule files that come with this program, in order of their names. BadInput where they do not lie beside it.
Result<std::vector<RuleFile>> loadShippedRules(const OperatorSet&);

/// A recipe whose rules rewrite the model. Nothing is verified: some of it may be taken back when it is applied.
struct RecipeFit {
  const RuleFile* file = nullptr;
  const Recipe* recipe = nullptr;
  std::vector<std::pair<std::string, size_t>> rules;  ///< that rewrite something, with how often; in the recipe's order
  size_t rewrites = 0;                                ///< by rules
  size_t nodesBefore = 0, nodesAfter = 0;
};
/// Whether one does all that the other does, and so makes its trial needless: rules are tried one by one later.
bool holds(const RecipeFit& all, const RecipeFit& some);
/// Those that rewrite something by other rules than the ones before, the one that leaves the fewest nodes first, and of
/// these the one that rewrites most. One that holds another comes before it.
std::vector<RecipeFit> fittingRecipes(const Graph&, const std::vector<RuleFile>&, const Semantics&, const Job& = {});

/// What the shipped recipes find in one model's file.
struct FittedModel {
  std::string model;
  const FileFormat* format = nullptr;
  size_t nodes = 0;
  std::vector<RecipeFit> fits;
  std::vector<std::string> advice;  ///< adviceFor() where none fits
  double milliseconds = 0;          ///< of running all recipes
};

/// Whether the recipe has a step of this name: a rule's or a pass's.
bool hasStep(const Recipe&, std::string_view name);

/// The recipe without some of its steps, and without the counts that it expects.
Recipe without(const Recipe&, const std::vector<std::string>& steps);

}  // namespace graft::workbench
