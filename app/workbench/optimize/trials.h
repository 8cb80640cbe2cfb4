// Trials: recipes of a model as the files that they would write, timed beside the original and beside each other.
//
//   Trials trials(prepared, request, semantics, job);
//   auto best = bestRecipe(trials, fits, original.run, report, job);      // the fastest alone
//   addRecipes(trials, fits, **best, report, job);                        // and others behind it
//   auto rules = dropRules(trials, **best, "", report, job);              // without what makes it slower
//
// The order is fixed. A plan takes the place of another one where the runs tell that the model is faster so, never for
// a difference that they cannot tell.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/workbench/optimize/group_trials.h"
#include "app/workbench/optimize/optimize.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "core/base/temporary_folder.h"
#include "core/torch/bench.h"
#include "core/torch/timing_turn.h"

namespace graft::workbench {

/// One recipe of a plan, and which of its rules are left out.
struct PlannedRecipe {
  const RuleFile* file;
  const Recipe* recipe;
  std::vector<std::string> dropped;
};
using Plan = std::vector<PlannedRecipe>;
/// "Encoder without Linear, then ConvNet".
std::string nameOf(const Plan&);
/// The plan without a rule of one of its recipes, nor the same rule in its other recipes: they would rewrite what it
/// leaves. Or without a pass of one recipe.
Plan withoutRule(Plan, const std::string& recipe, const std::string& name);

/// A plan as the file that it would write, loaded and ready to be timed.
struct Variant {
  Plan plan;
  Graph graph;
  std::vector<std::pair<std::string, StepRun>> rules;  ///< that rewrote something, with their recipes
  TemporaryFolder folder;
  Runnable run;
  size_t rewrites() const;
};

class Trials {
 public:
  /// Keeps references to all.
  Trials(const Prepared& before, const OptimizeRequest&, const Semantics&, const Job&);

  double seconds() const { return time_.seconds(); }  ///< since it was made
  /// Whether this share of the budget is used up.
  bool isOver(double share = 1) const { return seconds() > share * request_.budget; }
  /// Whether this share of the budget is enough to build another variant and to time it beside this one.
  bool hasTimeFor(const Runnable& like, double share = 1) const {
    return seconds() + buildSeconds_ + leastSeconds(like, like) <= share * request_.budget;
  }
  /// Whether the budget is enough to time these.
  bool canTime(const Runnable& a, const Runnable& b) const { return seconds() + leastSeconds(a, b) <= request_.budget; }
  const RunOptions& options() const { return options_; }

  /// Nothing is verified yet: that is done of what is kept. Generated kernels that are slower than their operators are
  /// operators again, as far as the time for timing kernels reaches.
  Result<Variant> build(const Plan&);
  /// The generated kernels of a graph that are slower in place become operators. What was timed before is not timed
  /// again.
  Result<std::vector<TriedGroup>> tryKernels(Graph&);
  /// How many times as fast `b` is.
  Result<SpeedBeside> time(const Runnable& a, const Runnable& b, const std::string& what) const;
  /// Clears what was reported.
  void finish() const { job_.report("trying", 1, 1); }
  /// So that this many trials take half of the budget, for building them takes time, too.
  void shareAmong(size_t trials);

 private:
  void tell(const std::string& what) const;

  const Prepared& before_;
  const OptimizeRequest& request_;
  const Semantics& semantics_;
  const Job& job_;
  RunOptions options_;
  OwnTime time_;
  double trialSeconds_ = 1;
  KnownGroups knownGroups_;
  double groupSeconds_ = 0;  ///< spent on timing kernels
  double buildSeconds_ = 0;  ///< of the last variant, without timing kernels
};

bool isSlower(const SpeedBeside&);
bool isFaster(const SpeedBeside&);
Error stoppedTrying();

/// Each recipe that fits, on its own beside the original. The fastest, which may still be slower than the original: it
/// is tried without each of its rules later. Takes about half of the budget, so that time is left for what goes on from
/// there. Where runs take so long that the budget is not enough to time one, the first that runs. Nothing where none
/// runs.
Result<std::optional<Variant>> bestRecipe(Trials&, const std::vector<RecipeFit>&, const Runnable& original,
                                          OptimizeReport&, const Job&);
/// Leaves out each rule of that recipe ("": of all) without which the exported model is faster. A row for each rule.
Result<std::vector<TriedRule>> dropRules(Trials&, Variant& current, const std::string& ofRecipe, OptimizeReport&,
                                         const Job&);
/// The others once more, behind the one that is kept: a model may hold convolutions and attention. Those with generated
/// kernels come first, since they take what any recipe leaves. One that makes the model no faster as it is may do so
/// without some of its rules.
Status addRecipes(Trials&, const std::vector<RecipeFit>&, Variant& current, OptimizeReport&, const Job&);

}  // namespace graft::workbench
