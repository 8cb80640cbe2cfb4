// Running a recipe: its steps in order, what each did, and whether it did as often as the recipe expects.
#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/suggest.h"
#include "matcher/passes/passes.h"

namespace graft {
namespace {

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

Error unknownStep(const RuleFile& file, const Recipe& recipe, const Step& step) {
  std::vector<std::string> known;
  for (const Rule& r : file.rules) known.push_back(r.name);
  for (const Pass& p : passes()) known.emplace_back(p.name);
  const auto nearest = nearestName(step.name, known);
  return badInputAt({file.path, step.line, 0, ""}, "the recipe " + recipe.name + " has a step `" + step.name +
                                                       "` that is neither a rule of this file nor a known pass" +
                                                       (nearest ? "; did you mean `" + *nearest + "`?" : ""));
}

/// A pass names the keywords that it takes ("gpu=True"), or has no arguments. One that takes others than keywords looks
/// at them itself.
Status checkArguments(const Pass& pass, const Step& step) {
  const bool hasKeywords = pass.arguments.find('=') != std::string_view::npos;
  if (!hasKeywords && !pass.arguments.empty()) return done();
  const std::string name(pass.name), known(pass.arguments);
  if (!hasKeywords && !(step.args.empty() && step.kwargs.empty())) return badInput(name + " takes no arguments");
  if (!step.args.empty()) return badInput(name + " takes keywords alone: " + known);
  for (const auto& [key, value] : step.kwargs)
    if (!takesKeyword(pass, key)) return badInput(name + " takes no " + key + "; it takes " + known);
  return done();
}

// One run of a recipe on one graph.
class RecipeRunner {
 public:
  RecipeRunner(Graph& graph, const RuleFile& file, const Recipe& recipe, const Semantics& semantics,
               const RewriteOptions& options)
      : graph_(graph), file_(file), recipe_(recipe), semantics_(semantics), options_(options) {}

  Result<StepRun> run(const Step& step) {
    StepRun done;
    done.name = step.name;
    const auto start = std::chrono::steady_clock::now();
    Status s = graft::done();
    if (const Rule* rule = step.rule ? step.rule.get() : file_.findRule(step.name)) {
      done.isRule = true;
      s = rule->replacement ? rewrite(*rule, done) : find(*rule, done);
    } else if (const Pass* pass = findPass(step.name)) {
      done.isRule = pass->checksEdits;
      s = change(*pass, step, done);
    } else {
      s = unknownStep(file_, recipe_, step);
    }
    if (!s) return s.error();
    done.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (s = checkExpected(done); !s) return s.error();
    return done;
  }

 private:
  Status rewrite(const Rule& rule, StepRun& step) {
    auto applied = applyRule(graph_, rule, semantics_, options_);
    if (!applied) return applied.error();
    step.records = std::move(applied->records);
    step.refused = std::move(applied->refused);
    step.rolledBack = std::move(applied->rolledBack);
    if (applied->budgetExceeded)
      step.refused.push_back("the search's step budget was exceeded: there may be more places than were found");
    return done();
  }

  // A rule that only finds: where, and nothing changed.
  Status find(const Rule& rule, StepRun& step) {
    const SearchResult found = Matcher(graph_).findAll(rule);
    if (!found.problem.empty()) return badInput("the rule " + rule.name + ": " + found.problem);
    for (const Match& m : found.matches) {
      Record& r = step.records.emplace_back();
      r.rule = rule.name;
      r.scope = m.scope;
    }
    return done();
  }

  Status change(const Pass& pass, const Step& step, StepRun& out) {
    std::optional<Graph> before;
    if (options_.check && !pass.checksEdits) before = graph_;
    GraphEditor editor(graph_, semantics_, std::string(pass.name), options_.listener);
    editor.setCheck(pass.checksEdits ? options_.check : nullptr);
    Status s = checkArguments(pass, step);
    if (s) s = pass.run(editor, step);
    if (!s) {
      Error e = s.error();
      if (!e.position && step.line > 0) e.position = Position{file_.path, step.line, 0, ""};
      return e;
    }
    out.records = editor.takeRecords();
    out.rolledBack = editor.rolledBack();
    out.refused = editor.refused();
    if (options_.strict && !out.rolledBack.empty())
      return Error{
          ErrorKind::Verification, "the step " + step.name + ": " + out.rolledBack.front().verification.why, {}};
    return before && !out.records.empty() ? check(*before, out) : done();
  }

  // A pass is verified as a whole, and taken back as a whole.
  Status check(Graph& before, StepRun& step) {
    const bool changesNumbers =
        std::any_of(step.records.begin(), step.records.end(), [](const Record& r) { return r.changesNumbers; });
    step.verification = options_.check->checkWhole(before, graph_, changesNumbers);
    if (step.verification.verdict != RewriteVerification::Verdict::Failed) return done();
    if (options_.strict)
      return Error{ErrorKind::Verification, "the step " + step.name + ": " + step.verification.why, {}};
    graph_ = std::move(before);
    step.rolledBack.push_back({"", "", {}, step.verification});
    step.records.clear();
    if (options_.listener) options_.listener->onRolledBack(step.rolledBack.back(), graph_);
    return done();
  }

  // Counts what the step changed. After the last step of that name the sum has to be what the recipe expects.
  Status checkExpected(const StepRun& step) {
    const size_t total = counter(totals_, step.name) += step.records.size();
    if (++counter(runs_, step.name) < countOf(recipe_, step.name)) return done();
    for (const auto& [name, expected] : recipe_.expect) {
      if (name != step.name || total == expected) continue;
      if (const Rule* rule = file_.findRule(name)) return expectation(graph_, *rule, expected, total, step);
      return Error{ErrorKind::Expectation,
                   "the step " + name + " was expected to change " + std::to_string(expected) +
                       (expected == 1 ? " place" : " places") + ", it changed " + std::to_string(total),
                   {}};
    }
    return done();
  }

  using Counters = std::vector<std::pair<std::string, size_t>>;
  static size_t& counter(Counters& list, const std::string& name) {
    for (auto& [key, n] : list)
      if (key == name) return n;
    return list.emplace_back(name, 0).second;
  }

  Graph& graph_;
  const RuleFile& file_;
  const Recipe& recipe_;
  const Semantics& semantics_;
  const RewriteOptions& options_;
  Counters totals_, runs_;
};

}  // namespace

Result<RecipeRun> runRecipe(Graph& graph, const RuleFile& file, const Recipe& recipe, const Semantics& semantics,
                            const std::function<void(const StepRun&, const Graph&)>& onStep,
                            const RewriteOptions& options) {
  for (const auto& [name, expected] : recipe.expect)
    if (countOf(recipe, name) == 0)
      return badInput("the recipe " + recipe.name + " expects " + std::to_string(expected) + " of " + name +
                      ", which is none of its steps");
  RecipeRun run;
  RecipeRunner runner(graph, file, recipe, semantics, options);
  for (const Step& step : recipe.steps) {
    auto done = runner.run(step);
    if (!done) return done.error();
    if (onStep) onStep(*done, graph);
    run.steps.push_back(std::move(*done));
  }
  return run;
}

}  // namespace graft
