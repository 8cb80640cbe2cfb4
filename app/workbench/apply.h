// Apply: rewrites a graph by a recipe, by one rule or by chosen matches of one, and verifies each rewrite on its own;
// or a model file into another one, with the whole model verified and timed before anything is written.
//
//   RewriteRequest request{.recipe = recipe, .verify = {.inputs = inputs}};
//   Result<Rewritten> r = workbench::rewrite(graph, file, request, semantics, job);   // r->graph, r->steps,
//   r->verdicts
//
//   ApplyRequest request{.model = {"bert.pt"}, .inputs = {.file = "inputs.pt"}, .output = "fast.pt"};
//   Result<ApplyReport> r = workbench::apply(request, rules, semantics, job);         // r->output->path, or r->refusal
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/baselines/file_timing.h"
#include "app/workbench/export.h"
#include "app/workbench/history.h"
#include "app/workbench/open.h"
#include "app/workbench/rules.h"
#include "core/torch/verification.h"
#include "matcher/rewrite/rewrite_selection.h"

namespace graft::workbench {

/// What rewrites are tried on before they are made final.
struct VerifyOn {
  std::optional<TensorSet> inputs = {};  ///< none: rewrites are not verified
  bool areRandom = false;                ///< they were made up
  std::string obstacle = {};             ///< why there are none
  bool sizesAreOpen = false;             ///< the model's file does not say which sizes may differ (declaresSizes)
  std::string failingInputs = {};        ///< a folder for the inputs that broke a rewrite; "": they are not written
  double furtherSeconds = 20;            ///< makeRewriteCheck's
};

struct RewriteRequest {
  std::optional<Recipe> recipe = {};  ///< or else `rule`
  std::string rule = {};
  std::optional<std::vector<size_t>> only = {};  ///< of `rule`: the matches with these numbers, as match() counts them
  VerifyOn verify = {};
  bool strict = false;        ///< the first rewrite that fails is an error
  bool keepSubSteps = false;  ///< for History
  /// Keeps which rewrites are made and what is said of each, or says which are made again.
  RewriteSelection* selection = nullptr;
};

/// How many rewrites were verified, and how many not.
struct Verdicts {
  size_t verified = 0;
  size_t measured = 0;  ///< they compute something else on purpose
  size_t unverified = 0;
  size_t rolledBack = 0;
  std::string why;  ///< the first reason why one was not verified
};

struct Rewritten {
  Graph graph;
  std::string label;  ///< the recipe's name or the rule's
  bool isRecipe = false;
  size_t nodesBefore = 0;
  std::vector<StepRun> steps;  ///< of one rule: a single one
  Verdicts verdicts;
  SubSteps subSteps;
  double milliseconds = 0;

  std::vector<Record> records() const;
  std::vector<std::string> refused() const;
  std::vector<RolledBack> rolledBack() const;
};
/// Rules are verified rewrite by rewrite, passes as a whole.
Verdicts verdictsOf(const std::vector<StepRun>&, const VerifyOn&);

/// Errors: Cancelled, when nothing has changed; Expectation where a rule rewrote another number of times than the
/// recipe expects; Verification with `strict`; BadInput where a rule only finds, or a match has no such number.
Result<Rewritten> rewrite(Graph, const RuleFile&, const RewriteRequest&, const Semantics&, const Job& = {});

struct ApplyRequest {
  OpenRequest model;
  InputRequest inputs;
  std::string output;             ///< where the rewritten model goes
  std::string failingInputs;      ///< VerifyOn::failingInputs
  bool verify = true;             ///< compare the whole model's numbers, on random inputs where none are given
  bool verifyRewrites = true;     ///< each rewrite on its own, too
  bool strict = false;            ///< a match that cannot be rewritten is an error, too, and outputs without numbers
  std::optional<double> seconds;  ///< how long to time both models; none: they are not timed
  bool capture = true;            ///< the written model may run as CUDA graphs on a GPU
  bool allowUnchanged = false;    ///< where nothing was rewritten, the output is the model as it is
  bool asDeclared = false;        ///< nothing runs: types are those that the file declares; not with `verify`
};
/// The whole model failed its check although each rewrite passed: what was done about it.
struct Bisection {
  std::string why;         ///< how the whole failed
  size_t rewrites = 0;     ///< that it failed with
  size_t takenBack = 0;    ///< of these, the others stay
  size_t runs = 0;         ///< of the whole model, to find them
  bool isComplete = true;  ///< time was enough; else more than need be was taken back
};
struct ApplyReport {
  std::string model;
  std::string method;  ///< which of the file's methods or graphs
  const FileFormat* format = nullptr;
  std::string recipe;
  size_t nodesBefore = 0, nodesAfter = 0;
  std::vector<std::string> randomInputs;  ///< Inputs::random
  std::string noInputs;                   ///< why there are none
  std::vector<std::string> settled;       ///< notes: what the inputs' ranks, dtypes and numbers decided, training mode
  std::vector<MissingOperator> missing;  ///< that this machine does not have: the model is verified in parts, not timed
  std::vector<StepRun> steps;
  std::optional<Verification> verification;  ///< of the whole model; none: it was not compared
  std::optional<Bisection> bisection;        ///< some rewrites were taken back so that the whole passes
  /// Numbers differ, and these steps change them on purpose: the model is written nevertheless.
  std::string changedOnPurpose;
  std::optional<AgainstOriginal> timing;  ///< of the written file
  std::optional<WrittenModel> output;     ///< none: nothing was written
  bool unchanged = false;                 ///< nothing was rewritten: `output` is the model as it is, or none
  std::optional<Error> refusal;           ///< why nothing was written
};
/// A model that is about to be rewritten: opened, its types recorded from a run on its inputs.
struct Prepared {
  Model model;
  std::vector<TracedSizes> sizes;   ///< as the file has them; empty where it declares its own
  std::optional<TensorSet> inputs;  ///< none: the report says why
};
/// Whether a model runs on inputs: there are none where there need not be, they have to be, or nobody asks.
enum class Needs { Nothing, InputsIfAny, Inputs };
/// Fills what the report says of model and inputs. An error where there have to be inputs and are none.
Result<Prepared> prepare(const OpenRequest&, const InputRequest&, Needs, ApplyReport&, const Semantics&,
                         const Job& = {});
/// Records in the model what one run on the inputs sees, where there are inputs; the report's `settled` says what that
/// decided.
Status recordTypes(Prepared&, ApplyReport&, const Semantics&);
/// Compares the whole rewritten model, and sets the report's refusal where that fails.
Status verifyWhole(const Prepared&, const Graph& rewritten, ApplyReport&, const Job& = {}, const FurtherInputs& = {});

/// Of a report whose verification had no number to compare: why --strict refuses it.
std::optional<Error> uncompared(const ApplyReport&);

/// How far the work has come: the report holds what this stage and those before it found.
enum class ApplyStage {
  Inputs,
  Rewritten,
  Verified,
  Timed,
  Written
};  // a written file is timed before it gets its name
using OnApplyStage = std::function<void(ApplyStage, const ApplyReport&)>;

/// Opens, rewrites, verifies, writes and times a model. What fails the verification is refused: that is part of the
/// report, as its reason. A model in which nothing was rewritten is not written either, unless that is allowed. Errors
/// are for what could not be done at all; then nothing was written.
Result<ApplyReport> apply(const ApplyRequest&, const ChosenRecipe&, const Semantics&, const OnApplyStage& = {},
                          const Job& = {});

}  // namespace graft::workbench
