#include "app/workbench/cases/test_rules.h"

#include <fmt/format.h>

#include <chrono>
#include <sstream>

#include "app/workbench/cases/case_model.h"
#include "app/workbench/rules.h"
#include "core/base/words.h"
#include "core/torch/rewrite_verification.h"
#include "matcher/rewrite/rewrite.h"
#include "matcher/search/search.h"

namespace graft::workbench {
namespace {

Error failed(const Case& c, ErrorKind kind, std::string message) {
  return {kind, std::move(message), Position{c.file, c.line, 0, {}}};
}

/// The rule is matched and not as often as it should be, or does not match for another reason.
Status checkMatches(const Case& c, const Rule& rule, const Graph& model) {
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(model).findAll(rule, options);
  if (!found.problem.empty()) return failed(c, ErrorKind::BadInput, found.problem);
  const NearMiss* miss = found.nearMisses.empty() ? nullptr : &found.nearMisses[0];
  if (found.matches.size() != c.matches)
    return failed(c, ErrorKind::Expectation,
                  fmt::format("{} matches {}, expected {}{}", rule.name, counted(found.matches.size(), "time"),
                              c.matches, miss && found.matches.size() < c.matches ? "; " + miss->message : ""));
  if (c.matches != 0 || c.reason.empty()) return done();
  const std::string reason = miss ? std::string(reasonName(miss->reason)) : "";
  if (reason == c.reason) return done();
  return failed(c, ErrorKind::Expectation,
                miss ? fmt::format("{} does not match for the reason \"{}\", expected \"{}\": {}", rule.name, reason,
                                   c.reason, miss->message)
                     : fmt::format("nothing of the model comes near to what {} matches; leave out the reason \"{}\"",
                                   rule.name, c.reason));
}

Status checkRewrites(const Case& c, const Rule& rule, Graph& model, const Semantics& semantics, const Job& job) {
  auto inputs = inputsOf(c, model);
  if (!inputs) return failed(c, ErrorKind::BadInput, inputs.error().message);
  const auto check = makeRewriteCheck(*inputs, job);
  auto run = applyRule(model, rule, semantics, {check.get(), false});
  if (!run) return run.error();
  if (!run->rolledBack.empty())
    return failed(c, ErrorKind::Verification,
                  "the replacement computes something else: " + toString(run->rolledBack[0]));
  if (!run->refused.empty()) return failed(c, ErrorKind::Expectation, run->refused[0]);
  if (run->records.size() >= c.matches) return done();
  return failed(c, ErrorKind::Expectation,
                fmt::format("{} rewrites {} of {}", rule.name, run->records.size(), counted(c.matches, "match")));
}

/// Of one case; done where it passes.
Status checkCase(const Case& c, const Rule& rule, const Semantics& semantics, const Job& job) {
  auto model = modelOf(c, semantics);
  if (!model) return model.error();
  if (Status s = checkMatches(c, rule, *model); !s || c.matches == 0 || !rule.replacement) return s;
  return checkRewrites(c, rule, *model, semantics, job);
}

}  // namespace

Result<TestedRules> testRules(const std::string& path, const std::string& onlyRule, const Semantics& semantics,
                              const Job& job) {
  TestedRules out;
  out.file = path;
  const auto file = loadRules(path, semantics.operators());
  if (!file) {
    out.mistake = file.error();
    return out;
  }
  if (!onlyRule.empty())
    if (auto known = ruleNamed(*file, onlyRule); !known) return known.error();
  for (const Rule& rule : file->rules) {
    if (rule.file != file->path || (!onlyRule.empty() && rule.name != onlyRule)) continue;
    std::istringstream text(rule.cases);
    const auto cases = readCases(text, path, rule.casesLine);
    if (!cases) {
      out.mistake = cases.error();
      out.cases.clear();
      return out;
    }
    if (cases->empty()) out.untested.push_back(rule.name);
    for (size_t i = 0; i < cases->size(); ++i) {
      job.report("testing " + rule.name, i, cases->size());
      const auto begin = std::chrono::steady_clock::now();
      Status passed = checkCase((*cases)[i], rule, semantics, job);
      if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      out.cases.push_back(
          {rule.name, (*cases)[i].line, seconds.count(), passed ? std::nullopt : std::optional<Error>(passed.error())});
    }
  }
  return out;
}

}  // namespace graft::workbench
