// Runs the case files. Every case that matches is also rewritten: the graph still verifies, prints and parses back, was
// not touched by the search, is not matched again, and computes the same numbers.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "case_model.h"
#include "core/ir/verify.h"
#include "core/text/text.h"
#include "core/torch/rewrite_verification.h"
#include "core/torch/verification.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite/rewrite.h"
#include "tests/support/catch.h"

using namespace graft;
using test::Case;

namespace {

using test::modelOf;
using test::semantics;
using test::take;

const RuleFile& rulesOf(const std::string& path) {
  static std::map<std::string, RuleFile> files;
  auto it = files.find(path);
  if (it == files.end())
    it = files.emplace(path, take(loadRuleFile(GRAFT_SOURCE_DIR "/" + path, semantics().operators()))).first;
  return it->second;
}

void check(const Case& c, const Rule* rule) {
  REQUIRE(rule);
  const Graph model = modelOf(c);
  const std::string text = toText(model);
  INFO(text);
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(model).findAll(*rule, options);
  CHECK(found.problem.empty());
  CHECK(toText(model) == text);
  INFO((found.nearMisses.empty()
            ? "no near miss"
            : std::string(reasonName(found.nearMisses[0].reason)) + ": " + found.nearMisses[0].message));
  REQUIRE(found.matches.size() == c.matches);
  if (c.matches == 0) {
    if (c.reason.empty()) return;
    REQUIRE_FALSE(found.nearMisses.empty());
    CHECK(std::string(reasonName(found.nearMisses[0].reason)) == c.reason);
    return;
  }
  Graph after = model;
  const RuleRun run = take(applyRule(after, *rule, semantics()));
  INFO((run.refused.empty() ? "" : run.refused[0]));
  CHECK(run.records.size() == c.matches);
  const Status sound = verify(after);
  INFO((sound ? "" : sound.error().format()));
  CHECK(sound);
  TextOptions plain;
  plain.sources = false;
  const std::string printed = toText(after, plain);
  INFO(printed);
  CHECK(toText(take(parseText(printed, semantics().operators())), plain) == printed);
  CHECK(take(applyRule(after, *rule, semantics())).records.empty());
  CHECK(toText(model) == text);
  if (rule->changesNumbers) return;
  const TensorSet inputs = test::inputsOf(c, model);
  const Verification verification = take(verifyRewrite(model, after, inputs));
  INFO(verification.why);
  CHECK(verification.passed);
  // Each rewrite on its own too: on edge values, other strides, whole masks.
  Graph again = model;
  const auto alone = makeRewriteCheck(inputs);
  const RuleRun verified = take(applyRule(again, *rule, semantics(), {alone.get(), false}));
  for (const RolledBack& r : verified.rolledBack) UNSCOPED_INFO("taken back " << toString(r));
  CHECK(verified.rolledBack.empty());
  for (const Record& r : verified.records) {
    INFO(r.verification.why);
    CHECK(r.verification.verdict == RewriteVerification::Verdict::Verified);
  }
}

}  // namespace

TEST_CASE("the shipped rules find what they should, nothing beside it, and compute the same") {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/tests/resources/rules")) {
    if (entry.path().extension() != ".cases") continue;
    for (const Case& c : test::readCases(entry.path().string())) {
      ++count;
      DYNAMIC_SECTION(entry.path().filename().string() << ":" << c.line << " " << c.rule) {
        check(c, rulesOf(c.rules).findRule(c.rule));
      }
    }
  }
  CHECK(count > 40);
}

namespace {

/// A `graph` block: canonical text, and how often the rule matches there, or why not: "2", "none module type".
void checkGraph(const std::string& text, const std::string& expected, const Rule& rule) {
  const Graph graph = take(parseText("graph g {\n" + text + "}\n", semantics().operators()));
  CHECK(verify(graph));
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(graph).findAll(rule, options);
  if (!expected.starts_with("none")) {
    CHECK(std::to_string(found.matches.size()) == expected);
    return;
  }
  CHECK(found.matches.empty());
  REQUIRE_FALSE(found.nearMisses.empty());
  CHECK("none " + std::string(reasonName(found.nearMisses[0].reason)) == expected);
}

/// Runs the cases of a rule's docstring, in a block that begins at that line of the page; how many there were.
size_t runDocstring(const Rule& rule, const std::string& path, int began) {
  std::istringstream text(rule.cases);
  const std::vector<Case> cases = test::readCases(text, path, began + rule.casesLine - 1);
  for (const Case& c : cases) {
    INFO(path << ":" << c.line);
    check(c, &rule);
  }
  return cases.size();
}

/// Runs the code blocks of a page; how many examples there were.
size_t runPage(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  std::string fence, block;
  std::optional<RuleFile> rules;
  std::string mistake;
  int number = 0, began = 0;
  size_t examples = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.starts_with("```")) {
      block += line + "\n";
      continue;
    }
    if (fence.empty()) {
      fence = line.substr(3).empty() ? "none" : line.substr(3);
      block.clear();
      began = number + 1;
      continue;
    }
    INFO(path << ":" << began);
    if (fence == "python") {
      rules = take(parseRuleText(block, "rules.py", semantics().operators()));
      for (const Rule& rule : rules->rules) examples += runDocstring(rule, path, began);
    } else if (fence == "python wrong") {
      const auto parsed = parseRuleText(block, "rules.py", semantics().operators());
      REQUIRE_FALSE(parsed);
      mistake = parsed.error().format() + "\n";
    } else if (fence == "text") {
      CHECK(block == mistake);
    } else if (fence == "cases") {
      REQUIRE(rules);
      std::istringstream text(block);
      for (const Case& c : test::readCases(text, path, began)) {
        INFO(path << ":" << c.line);
        ++examples;
        check(c, &rules->rules.back());
      }
    } else if (fence.starts_with("graph ")) {
      REQUIRE(rules);
      ++examples;
      checkGraph(block, fence.substr(6), rules->rules.back());
    }
    fence.clear();
  }
  return examples;
}

}  // namespace

TEST_CASE("the examples of docs/guide/writing-rules.md do what the page says") {
  CHECK(runPage(GRAFT_SOURCE_DIR "/docs/guide/writing-rules.md") > 10);
}

TEST_CASE("the examples of docs/reference/rule-language.md do what the page says") {
  CHECK(runPage(GRAFT_SOURCE_DIR "/docs/reference/rule-language.md") > 20);
}
