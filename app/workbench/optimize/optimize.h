// Optimize: makes a model faster without a rule file. It tries the recipes that come with Graft, each as a TorchScript
// file that it writes, and keeps what is verified and not slower.
//
//   OptimizeRequest request{.model = {"m.pt"}, .inputs = {.file = "in.pt"}, .output = "fast.pt"};
//   auto r = workbench::optimize(request, semantics, {}, job);
//   r->result.output, r->recipes[0].why, r->rules[2].isKept, r->advice
//
//   auto again = workbench::optimizeAgain(graph, r->plan, verifyOn, semantics, job);   // what was kept, without trials
//
// The order of the trials is fixed: recipes by how many nodes they leave, their rules in the recipe's order. One takes
// the place of another, or is left out, where the runs tell that the model is faster so, never for a difference that
// they cannot tell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/workbench/apply.h"
#include "core/base/numbers/ratio_range.h"

namespace graft::workbench {

struct OptimizeRequest {
  OpenRequest model;
  InputRequest inputs;
  /// What is made faster, in place of the file's graph: the file then holds that graph.
  const Graph* graph = nullptr;
  std::string output;  ///< where the faster model goes
  /// How long to time the written file beside the original; none: the caller times it, and the best of the trials is
  /// written.
  std::optional<double> seconds = 3;
  /// Seconds for all trials; what is left untried then stays as the recipe has it. Half of it, or 20 seconds, is for
  /// further inputs of the rewrites and of the whole, each. No second attempt begins after twice the budget, or 20
  /// seconds if that is more.
  double budget = 60;
  bool capture = true;          ///< ApplyRequest::capture
  bool allowUnchanged = false;  ///< ApplyRequest::allowUnchanged
  bool strict = false;          ///< a result of which no number could be compared is an error
  bool keepSubSteps = false;    ///< of what is kept, for History
  std::string fusion;           ///< the plan that recipes with generated kernels follow, as of steerFusion(); "": none
};

/// How fast one model was beside another.
struct SpeedBeside {
  double ratio = 0;
  RatioRange range;
};
struct TriedRecipe {
  std::string file, recipe;
  size_t rewrites = 0, nodesAfter = 0;
  std::optional<SpeedBeside> speed;  ///< as exported, beside the original; with `behind`, beside what that makes
  std::string behind;                ///< the recipes before it in the plan; "": it is the first, or is not kept
  bool isKept = false;
  std::string why;  ///< why it is not kept
};
struct TriedRule {
  std::string recipe, rule;
  size_t rewrites = 0;
  std::optional<SpeedBeside> speed;  ///< of the model without this rule, beside the model with it
  bool isKept = true;
  bool isWrong = false;  ///< not kept since the whole model computed something else with it
  std::string why;       ///< why it is not kept, or was not tried
};
/// One generated kernel of the verified model.
struct TriedGroup {
  std::string kernel, node, module;  ///< its name, the call's, and the module that the call is in
  std::optional<SpeedBeside> speed;  ///< of the kernel beside the operators that it replaces
  double kernelMicroseconds = 0, operatorsMicroseconds = 0;
  bool isKept = true;
  bool isWrong = false;  ///< not kept since the whole model computed something else with it
  std::string why;       ///< "slower in place: 12.1 µs beside 9.8 µs", or why it was not timed
};
/// What was kept of the trials.
struct OptimizedPlan {
  struct Part {
    std::string file, recipe;
    std::vector<std::string> without;  ///< rules of the recipe that are left out
  };
  std::vector<Part> recipes;           ///< one after another
  std::vector<std::string> operators;  ///< calls of generated kernels that are operators again
};
enum class OptimizeStage { Inputs, Recipes, Rules, Rewritten, Verified, Timed, Written };
struct OptimizeReport {
  ApplyReport result;  ///< its recipe: "Encoder without Linear"; `unchanged` where nothing is kept
  std::vector<TriedRecipe> recipes;
  std::vector<TriedRule> rules;
  std::vector<TriedGroup> groups;
  OptimizedPlan plan;
  std::optional<Rewritten> rewritten;  ///< the model that was written; none where nothing is kept
  std::string beside;  ///< what the original ran as in the trials: "original (frozen TorchScript)"; "": none was run
  std::string whyUnchanged;  ///< where nothing is kept: "none of the recipes that come with Graft fits it"
  std::optional<AgainstOriginal> rejected;  ///< then: the times of the rewritten file, if there were any
  std::string instead;  ///< "ConvNet is not kept: the written file is slower", where the result is another recipe's
  std::vector<std::string> advice;  ///< then: what the model's time goes into, and what to do
  double seconds = 0;               ///< that all of it took
  std::vector<std::pair<OptimizeStage, double>>
      stages;                ///< reached, each after so many seconds; a second attempt has its own
  bool isOutOfTime = false;  ///< the budget was used up before all was tried
};
using OnOptimizeStage = std::function<void(OptimizeStage, const OptimizeReport&)>;

/// Errors are for what could not be done at all, such as running the model on this machine. A model that nothing makes
/// faster is no error, nor is one whose verification fails: then nothing is written, unless that is allowed, and the
/// recipes say why they are not kept.
Result<OptimizeReport> optimize(const OptimizeRequest&, const Semantics&, const OnOptimizeStage& = {}, const Job& = {});

/// The plan once more: the same rewrites of the same graph, each verified on its own, with its sub-steps. `upTo`: its
/// first steps alone.
Result<Rewritten> optimizeAgain(Graph, const OptimizedPlan&, const VerifyOn&, const Semantics&, const Job& = {},
                                std::optional<size_t> upTo = {});

}  // namespace graft::workbench
