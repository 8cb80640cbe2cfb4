#include "matcher/passes/passes.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "core/base/suggest.h"
#include "matcher/passes/pass.h"

namespace graft {
namespace {

Records notYet(Graph&, const Semantics&, const Step& step) {
  return badInput("the step " + step.name + " is not yet available; take it out of the recipe");
}

const std::array<Pass, 12>& table() {
  static const std::array<Pass, 12> passes{{
      {"normalize", "one canonical form: operators by their one name, identities and dead nodes gone", normalize},
      {"remove_dropout", "dropouts that are switched off go", removeDropout},
      {"fold_constants", "what depends on weights and literals alone is calculated now", foldConstants},
      {"eliminate_common", "equal calculations are done once", eliminateCommon},
      {"eliminate_dead", "nodes and weights that no output depends on go", eliminateDead},
      {"decompose", "decompose(op): linear, silu, gelu, softmax, layer_norm or batch_norm into simple steps",
       decompose},
      {"half", "weights and calculations in float16; inputs and outputs keep their dtype", half},
      {"swap_module", "swap_module(nn.GELU, nn.ReLU): one activation module for another", swapModule},
      {"fuse", "generated kernels for chains of operators (not yet available)", notYet},
      {"fuse_pointwise", "generated kernels for pointwise chains (not yet available)", notYet},
      {"partition", "parts of the model for several devices (not yet available)", notYet},
      {"capture", "a CUDA graph of the whole model (not yet available)", notYet},
  }};
  return passes;
}

size_t countOf(const Recipe& recipe, std::string_view step) {
  return static_cast<size_t>(
      std::count_if(recipe.steps.begin(), recipe.steps.end(), [&](const Step& s) { return s.name == step; }));
}

// "expected 12, found 11": with the nearest place that did not match.
Error expectation(const Graph& graph, const Rule& rule, size_t expected, size_t actual, const StepRun& step) {
  std::string message = "the rule " + rule.name + " was expected to rewrite " + std::to_string(expected) +
                        (expected == 1 ? " place" : " places") + ", it rewrote " + std::to_string(actual);
  if (actual < expected) {
    SearchOptions options;
    options.explain = true;
    options.nearMisses = 1;
    const SearchResult found = Matcher(graph).findAll(rule, options);
    if (!step.rolledBack.empty()) {
      message += "; taken back " + toString(step.rolledBack.front());
    } else if (!step.refused.empty()) {
      message += "; refused " + step.refused.front();
    } else if (!found.nearMisses.empty()) {
      const NearMiss& m = found.nearMisses.front();
      message += "; the nearest other place";
      if (m.at) message += " (`" + graph.node(m.at).name + "`)";
      message += " has " + std::to_string(m.matched) + " of " + std::to_string(m.total) + " nodes: " + m.message;
    }
  }
  Error e{ErrorKind::Expectation, std::move(message), {}};
  if (rule.line > 0) e.position = Position{rule.file, rule.line, 0, ""};
  return e;
}

// A pass is proven as a whole, and taken back as a whole.
Status checkPass(Graph& before, Graph& after, const RewriteOptions& options, StepRun& step) {
  const bool changesNumbers =
      std::any_of(step.records.begin(), step.records.end(), [](const Record& r) { return r.changesNumbers; });
  step.verification = options.check->checkWhole(before, after, changesNumbers);
  if (step.verification.verdict != RewriteVerification::Verdict::Failed) return done();
  if (options.strict) return Error{ErrorKind::Verification, "the step " + step.name + ": " + step.verification.why, {}};
  after = std::move(before);
  step.rolledBack.push_back({"", "", {}, step.verification});
  step.records.clear();
  return done();
}

}  // namespace

std::span<const Pass> passes() { return table(); }

const Pass* findPass(std::string_view name) {
  for (const Pass& p : table())
    if (p.name == name) return &p;
  return nullptr;
}

Result<RecipeRun> runRecipe(Graph& graph, const RuleFile& file, const Recipe& recipe, const Semantics& semantics,
                            const std::function<void(const StepRun&, const Graph&)>& onStep,
                            const RewriteOptions& options) {
  RecipeRun run;
  for (const auto& [name, expected] : recipe.expect)
    if (countOf(recipe, name) == 0)
      return badInput("the recipe " + recipe.name + " expects " + std::to_string(expected) + " of " + name +
                      ", which is none of its steps");
  std::vector<std::pair<std::string, size_t>> totals, runs;
  const auto counter = [](auto& list, const std::string& name) -> size_t& {
    for (auto& [key, n] : list)
      if (key == name) return n;
    return list.emplace_back(name, 0).second;
  };
  for (const Step& step : recipe.steps) {
    StepRun done;
    done.name = step.name;
    const auto start = std::chrono::steady_clock::now();
    const Rule* rule = file.findRule(step.name);
    if (rule && rule->replacement) {
      done.isRule = true;
      auto applied = applyRule(graph, *rule, semantics, options);
      if (!applied) return applied.error();
      done.records = std::move(applied->records);
      done.refused = std::move(applied->refused);
      done.rolledBack = std::move(applied->rolledBack);
      if (applied->budgetExceeded)
        done.refused.push_back("the search's step budget was exceeded: there may be more places than were found");
    } else if (rule) {
      done.isRule = true;
      SearchResult found = Matcher(graph).findAll(*rule);
      if (!found.problem.empty()) return badInput("the rule " + rule->name + ": " + found.problem);
      for (const Match& m : found.matches) {  // a rule that only finds: where, and nothing changed
        Record r;
        r.rule = rule->name;
        r.scope = m.scope;
        done.records.push_back(std::move(r));
      }
    } else if (const Pass* pass = findPass(step.name)) {
      std::optional<Graph> before;
      if (options.check) before = graph;
      auto records = pass->run(graph, semantics, step);
      if (!records) {
        Error e = records.error();
        if (!e.position && step.line > 0) e.position = Position{file.path, step.line, 0, ""};
        return e;
      }
      done.records = std::move(*records);
      if (before && !done.records.empty()) {
        if (Status s = checkPass(*before, graph, options, done); !s) return s.error();
      }
    } else {
      std::vector<std::string> known;
      for (const Rule& r : file.rules) known.push_back(r.name);
      for (const Pass& p : passes()) known.push_back(p.name);
      const auto nearest = nearestName(step.name, known);
      return badInputAt({file.path, step.line, 0, ""}, "the recipe " + recipe.name + " has a step `" + step.name +
                                                           "` that is neither a rule of this file nor a known pass" +
                                                           (nearest ? "; did you mean `" + *nearest + "`?" : ""));
    }
    done.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    counter(totals, step.name) += done.records.size();
    const bool last = ++counter(runs, step.name) == countOf(recipe, step.name);
    for (const auto& [name, expected] : recipe.expect)
      if (last && name == step.name && counter(totals, name) != expected) {
        if (rule) return expectation(graph, *rule, expected, counter(totals, name), done);
        return Error{ErrorKind::Expectation,
                     "the step " + name + " was expected to change " + std::to_string(expected) +
                         (expected == 1 ? " place" : " places") + ", it changed " +
                         std::to_string(counter(totals, name)),
                     {}};
      }
    if (onStep) onStep(done, graph);
    run.steps.push_back(std::move(done));
  }
  return run;
}

}  // namespace graft
