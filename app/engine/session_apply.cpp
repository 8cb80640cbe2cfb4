// The engine's method that rewrites: a rule, some of its matches or a recipe, each rewrite proven before it is final.
#include <chrono>
#include <nlohmann/json.hpp>

#include "app/engine/methods.h"
#include "core/torch/rewrite_verification.h"
#include "matcher/passes/passes.h"
#include "matcher/report/rules_json.h"
#include "matcher/search/search.h"

namespace graft {

using nlohmann::json;

struct Session::Methods::Applied {
  std::string label;
  std::vector<Record> records;
  std::vector<std::string> refused;
  std::vector<RolledBack> rolledBack;
  std::vector<RewriteVerification> verifications;  ///< of rules' rewrites one by one, of passes as a whole
  json steps = json::array();
  Document::Snapshot recipe;  ///< what is kept of one besides its result
};

namespace {

/// Graphs inside a recipe are kept while they hold no more nodes together than this.
constexpr size_t keptNodes = 200'000;

using Verdict = RewriteVerification::Verdict;

/// How many rewrites were proven and how many not; `why` is the first reason of what was not.
json verificationSummary(const std::vector<RewriteVerification>& verifications, size_t rolledBack,
                         const std::string& obstacle) {
  size_t verified = 0, measured = 0, unverified = 0;
  std::string why = obstacle;
  for (const RewriteVerification& p : verifications) {
    verified += p.verdict == Verdict::Verified;
    measured += p.verdict == Verdict::Measured;
    unverified += p.verdict == Verdict::Unverified || p.verdict == Verdict::Unchecked;
    if (p.verdict == Verdict::Unverified && why.empty()) why = p.why;
  }
  json out = {{"proven", verified}, {"measured", measured}, {"unproven", unverified}, {"rolledBack", rolledBack}};
  if (!why.empty()) out["why"] = why;
  return out;
}

}  // namespace

Session::Methods::Applied Session::Methods::applyRecipe(Graph& g, const RuleFile& file,
                                                        const RewriteOptions& options) const {
  Applied out;
  out.label = text("recipe");
  const Recipe* recipe = file.findRecipe(out.label);
  if (!recipe) throw RpcError{1, fmt::format("there is no recipe {}", out.label)};
  Recipe cut = *recipe;
  if (params.contains("upTo")) {
    const size_t upTo = params["upTo"].is_number_unsigned() ? params["upTo"].get<size_t>() : 0;
    if (upTo < 1 || upTo > cut.steps.size())
      throw RpcError{-32602,
                     fmt::format("the recipe {} has {} steps: upTo is none of them", cut.name, cut.steps.size())};
    if (upTo < cut.steps.size()) cut.expect.clear();  // said of all steps
    cut.steps.resize(upTo);
  }
  Document::Snapshot& kept = out.recipe;
  size_t records = 0, nodes = 0;
  bool isFull = false;
  const auto keep = [&](const StepRun& step, const Graph& now) {
    ++kept.steps;
    records += step.records.size();
    if (!step.records.empty()) {
      kept.changed = kept.steps;
      nodes += now.nodeCount();
      isFull = isFull || nodes > keptNodes;
      if (!isFull) kept.parts.push_back({kept.steps, records, now});
    }
    if (!isFull) kept.kept = kept.steps;
  };
  const RecipeRun run = take(runRecipe(g, file, cut, s.semantics_, keep, options));
  if (!kept.parts.empty() && kept.parts.back().steps == kept.changed) kept.parts.pop_back();  // it is the result
  out.steps = recipeJson(run);
  for (const StepRun& step : run.steps) {
    out.records.insert(out.records.end(), step.records.begin(), step.records.end());
    out.refused.insert(out.refused.end(), step.refused.begin(), step.refused.end());
    out.rolledBack.insert(out.rolledBack.end(), step.rolledBack.begin(), step.rolledBack.end());
    if (!step.isRule && !step.records.empty()) out.verifications.push_back(step.verification);
    const Rule* r = file.findRule(step.name);
    if (!r || !r->replacement) continue;
    for (const Record& record : step.records) out.verifications.push_back(record.verification);
  }
  return out;
}

Session::Methods::Applied Session::Methods::applyTicked(Graph& g, const Rule& rule,
                                                        const RewriteOptions& options) const {
  Applied out;
  const SearchResult found = Matcher(g).findAll(rule);
  std::vector<Match> ticked;
  for (const json& index : params["only"]) {
    if (!index.is_number_unsigned()) throw RpcError{-32602, "the parameter only must be a list of matches' numbers"};
    if (index.get<size_t>() >= found.matches.size())
      throw RpcError{1, fmt::format("there is no match {}", index.get<size_t>())};
    ticked.push_back(found.matches[index.get<size_t>()]);
  }
  Rewriter rewriter(g, s.semantics_, options.check);
  rewriter.prepare(ticked);
  for (Match& match : ticked) {
    auto record = rewriter.apply(rule, std::move(match));
    if (record)
      out.records.push_back(std::move(*record));
    else if (record.error().kind == ErrorKind::Verification)
      out.rolledBack.push_back(rewriter.rolledBack());
    else
      out.refused.push_back(record.error().message);
  }
  return out;
}

Session::Methods::Applied Session::Methods::applyOneRule(Graph& g, const RuleFile& file,
                                                         const RewriteOptions& options) const {
  const Rule& r = rule(file);
  if (!r.replacement) throw RpcError{1, fmt::format("{} has no replacement: it only finds", r.name)};
  Applied out;
  if (params.contains("only")) {
    if (!params["only"].is_array()) throw RpcError{-32602, "the parameter only must be a list of matches' numbers"};
    out = applyTicked(g, r, options);
  } else {
    RuleRun run = take(applyRule(g, r, s.semantics_, options));
    out.records = std::move(run.records);
    out.refused = std::move(run.refused);
    out.rolledBack = std::move(run.rolledBack);
  }
  out.label = r.name;
  for (const Record& record : out.records) out.verifications.push_back(record.verification);
  return out;
}

/// "prove" (true unless it is a preview): each rewrite runs beside what it replaces, on the request's inputs, or those
/// that the model was opened with, or random ones of its inputs' types. What fails is taken back. "upTo" runs a
/// recipe's first steps alone.
json Session::Methods::apply() const {
  Document& d = s.document(params);
  const RuleFile& file = rules();
  const bool preview = params.value("preview", false), prove = params.value("prove", !preview);
  Graph g = d.graph();
  const size_t before = g.nodeCount();
  std::unique_ptr<RewriteCheck> check;
  std::string obstacle = prove ? "" : "proving is switched off";
  if (prove) {
    auto inputs = d.inputs && !params.contains("inputs") ? Result<TensorSet>(*d.inputs) : givenInputs(d);
    if (inputs)
      check = makeRewriteCheck(std::move(*inputs), job, {}, !d.format->declaresSizes);
    else if (params.contains("inputs"))
      throw failure(inputs.error());
    else
      obstacle = "there are no inputs to try it on: " + inputs.error().message;
  }
  const RewriteOptions options{check.get(), false};
  const auto start = std::chrono::steady_clock::now();
  Applied a = has("recipe") ? applyRecipe(g, file, options) : applyOneRule(g, file, options);
  const double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  json verification = verificationSummary(a.verifications, a.rolledBack.size(), obstacle);
  if (check && !d.inputs && !params.contains("inputs") && verification["unproven"] > 0)
    verification["why"] =
        "on made-up inputs, " + verification.value("why", std::string()) + "; example inputs may help";
  if (job.cancelled()) throw RpcError{-32800, "stopped; nothing was changed"};
  json out = {{"graph", graphField(g)},
              {"records", recordsJson(a.records)},
              {"refused", a.refused},
              {"rolledBack", rolledBackJson(a.rolledBack)},
              {"proof", std::move(verification)},
              {"steps", std::move(a.steps)},
              {"nodesBefore", before},
              {"nodesAfter", g.nodeCount()},
              {"ms", milliseconds}};
  if (!preview) {
    d.forgetTheRest();
    Document::Snapshot& made = d.snapshots.emplace_back(std::move(a.recipe));
    made.graph = std::move(g);
    made.label = a.label;
    made.records = std::move(a.records);
    ++d.position;
    ++d.revision;
  }
  out["revision"] = d.revision;
  return out;
}

}  // namespace graft
