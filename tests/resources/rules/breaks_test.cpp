// Each shipped rule is broken in every way that mutations.h knows, one at a time, on a graph that it matches: the first
// near miss names what was broken.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "case_model.h"
#include "core/ir/verify.h"
#include "matcher/lang/fix_it.h"
#include "matcher/lang/rule_file.h"
#include "mutations.h"
#include "tests/support/catch.h"

using namespace graft;
using test::Case;
using test::Mutation;
using test::take;

namespace {

struct Tally {
  size_t broken = 0, named = 0, nodes = 0;
  size_t twice = 0, twiceNamed = 0;  // broken in two ways at once; one of them is named
  std::string wrong;
};

/// Nothing where the rule matches all the same.
std::optional<std::vector<NearMiss>> missesOf(const Rule& rule, const Graph& g) {
  SearchOptions options;
  options.explain = true;
  SearchResult found = Matcher(g).findAll(rule, options);
  if (!found.matches.empty()) return std::nullopt;
  return std::move(found.nearMisses);
}

std::string told(const Rule& rule, const Graph& g, const std::vector<NearMiss>& misses) {
  if (misses.empty()) return "nothing is said";
  const NearMiss& n = misses.front();
  return std::string(reasonName(n.reason)) + " at " + (n.at ? g.node(n.at).name : "?") + " for " +
         (n.patternNode ? rule.pattern.node(n.patternNode).name : "?") + " (" + std::to_string(n.matched) + " of " +
         std::to_string(n.total) + "): " + n.message;
}

/// A second fault beside the first: some of all pairs, always the same ones.
void breakAgain(const Rule& rule, const Match& match, const Mutation& first, size_t number, Tally& tally) {
  constexpr size_t stride = 7;
  const auto second = test::mutationsOf(first.graph, rule, match, test::semantics().operators());
  for (size_t i = number % stride; i < second.size(); i += stride) {
    if (second[i].what == first.what || !verify(second[i].graph)) continue;
    const auto misses = missesOf(rule, second[i].graph);
    if (!misses) continue;
    ++tally.twice;
    if (!misses->empty() && (first.isNamedBy(misses->front()) || second[i].isNamedBy(misses->front())))
      ++tally.twiceNamed;
    else
      tally.wrong += "\n  " + rule.name + ": " + first.what + ", and " + second[i].what + ": " +
                     told(rule, second[i].graph, *misses);
  }
}

void breakRule(const Rule& rule, const Case& c, Tally& tally) {
  const Graph model = test::modelOf(c);
  const SearchResult found = Matcher(model).findAll(rule);
  REQUIRE(found.matches.size() == c.matches);
  tally.nodes = found.matches[0].nodes.size();
  size_t number = 0;
  for (const Mutation& m : test::mutationsOf(model, rule, found.matches[0], test::semantics().operators())) {
    INFO(m.what);
    const Status sound = verify(m.graph);
    INFO((sound ? "" : sound.error().message));
    REQUIRE(sound);
    const auto misses = missesOf(rule, m.graph);
    if (!misses) continue;  // the rule allows for it
    ++tally.broken;
    if (!misses->empty() && m.isNamedBy(misses->front()))
      ++tally.named;
    else
      tally.wrong += "\n  " + rule.name + ": " + m.what + ": " + told(rule, m.graph, *misses);
    if (m.keepsNodes) breakAgain(rule, found.matches[0], m, number++, tally);
  }
}

/// The table of docs/reference/shipped-rules.md, between its two marks.
std::string tableOf(const std::map<std::string, Tally>& tallies) {
  std::string out = "| file | rule | breaks | named |\n|---|---|---|---|\n";
  for (const auto& [name, t] : tallies) {
    const size_t space = name.find(' '), slash = name.rfind('/', space);
    out += "| " + name.substr(slash + 1, space - slash - 1) + " | " + name.substr(space + 1) + " | " +
           std::to_string(t.broken) + " | " + std::to_string(t.named) + " |\n";
  }
  return out;
}

void compareTable(const std::string& table) {
  const std::string path = GRAFT_SOURCE_DIR "/docs/reference/shipped-rules.md", begin = "<!-- breaks -->\n",
                    end = "<!-- end -->";
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t a = text.find(begin), b = text.find(end);
  REQUIRE(a != std::string::npos);
  REQUIRE(b != std::string::npos);
  const size_t from = a + begin.size();
  if (std::getenv("UPDATE_EXPECT")) {
    std::ofstream(path) << text.substr(0, from) + table + text.substr(b);
    return;
  }
  INFO("UPDATE_EXPECT=1 writes the table of docs/reference/shipped-rules.md anew, to be read before it is committed");
  CHECK(text.substr(from, b - from) == table);
}

}  // namespace

TEST_CASE("the first near miss names what was broken, for every shipped rule") {
  std::string wrong;
  std::map<std::string, Tally> tallies;
  for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/tests/resources/rules")) {
    if (entry.path().extension() != ".cases") continue;
    for (const Case& c : test::readCases(entry.path().string())) {
      if (c.matches != 1) continue;
      const RuleFile file = take(loadRuleFile(GRAFT_SOURCE_DIR "/" + c.rules, test::semantics().operators()));
      const Rule* rule = file.findRule(c.rule);
      REQUIRE(rule);
      Tally& tally = tallies[c.rules + " " + c.rule];
      if (tally.broken == 0) breakRule(*rule, c, tally);
    }
  }
  Tally all;
  for (const auto& [rule, tally] : tallies) {
    INFO(rule << tally.wrong);
    CHECK(tally.broken >= (tally.nodes > 1 ? 10u : 3u));  // one operator offers fewer ways
    CHECK(static_cast<double>(tally.named) >= 0.85 * static_cast<double>(tally.broken));
    all.broken += tally.broken;
    all.named += tally.named;
    all.twice += tally.twice;
    all.twiceNamed += tally.twiceNamed;
    wrong += tally.wrong;
  }
  CHECK(tallies.size() >= 20);
  INFO(all.named << " of " << all.broken << " are named, of two faults at once one in " << all.twiceNamed << " of "
                 << all.twice << "; not so:" << wrong);
  CHECK(static_cast<double>(all.named) >= 0.97 * static_cast<double>(all.broken));
  CHECK(static_cast<double>(all.twiceNamed) >= 0.925 * static_cast<double>(all.twice));
  if (std::getenv("GRAFT_VERBOSE"))
    WARN(all.named << " of " << all.broken << " are named, of two faults at once one in " << all.twiceNamed << " of "
                   << all.twice << "; not so:" << wrong);
  compareTable(tableOf(tallies));
}

TEST_CASE("a number that differs is offered as an edit, whatever looks like it beside it") {
  const auto textOf = [](const std::string& expression) {
    return "import torch\nfrom graft import Rule\n\n\nclass R(Rule):\n    def pattern(x, y):\n        return " +
           expression + "\n";
  };
  const auto ruleOf = [&](const std::string& expression) {
    return *take(parseRuleText(textOf(expression), "rules.py", test::semantics().operators())).findRule("R");
  };
  const Graph model = ruleOf("torch.relu(x * 0.125 + y)").pattern;
  for (const std::string wrong : {"0.5", "5"}) {
    const std::string expression = "torch.relu(x * " + wrong + " + y)  # not 0.5, 5 or 35", text = textOf(expression);
    const Rule rule = ruleOf(expression);
    const auto misses = missesOf(rule, model);
    REQUIRE(misses);
    REQUIRE_FALSE(misses->empty());
    const auto edits = FixIts(text, "rules.py", test::semantics().operators(), model).edits(rule, misses->front());
    REQUIRE(edits.size() == 1);
    CHECK(withEdits(text, edits) == textOf("torch.relu(x * 0.125 + y)  # not 0.5, 5 or 35"));
  }
}
