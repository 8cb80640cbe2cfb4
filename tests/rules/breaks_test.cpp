// Each shipped rule is broken in every way that mutations.h knows, one at a time, on a graph that it matches: the first
// near miss names what was broken.
#include <cstdlib>
#include <filesystem>
#include <map>

#include "case_model.h"
#include "core/ir/verify.h"
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
  std::string wrong;
};

void breakRule(const Rule& rule, const Case& c, Tally& tally) {
  const Graph model = test::modelOf(c);
  const SearchResult found = Matcher(model).findAll(rule);
  REQUIRE(found.matches.size() == c.matches);
  tally.nodes = found.matches[0].nodes.size();
  for (const Mutation& m : test::mutationsOf(model, rule, found.matches[0], test::semantics().operators())) {
    INFO(m.what);
    const Status sound = verify(m.graph);
    INFO((sound ? "" : sound.error().message));
    REQUIRE(sound);
    SearchOptions options;
    options.explain = true;
    const SearchResult after = Matcher(m.graph).findAll(rule, options);
    if (!after.matches.empty()) continue;  // the rule allows for it
    ++tally.broken;
    if (!after.nearMisses.empty() && m.isNamedBy(after.nearMisses[0])) {
      ++tally.named;
      continue;
    }
    tally.wrong += "\n  " + rule.name + ": " + m.what + ": ";
    if (after.nearMisses.empty()) {
      tally.wrong += "nothing is said";
      continue;
    }
    const NearMiss& n = after.nearMisses[0];
    tally.wrong += std::string(reasonName(n.reason)) + " at " + (n.at ? m.graph.node(n.at).name : "?") + " for " +
                   (n.patternNode ? rule.pattern.node(n.patternNode).name : "?") + " (" + std::to_string(n.matched) +
                   " of " + std::to_string(n.total) + "): " + n.message;
  }
}

}  // namespace

TEST_CASE("the first near miss names what was broken, for every shipped rule") {
  size_t broken = 0, named = 0;
  std::string wrong;
  std::map<std::string, Tally> tallies;
  for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/tests/rules")) {
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
  for (const auto& [rule, tally] : tallies) {
    INFO(rule << tally.wrong);
    CHECK(tally.broken >= (tally.nodes > 1 ? 10u : 3u));  // one operator offers fewer ways
    broken += tally.broken;
    named += tally.named;
    wrong += tally.wrong;
  }
  CHECK(tallies.size() >= 20);
  INFO(named << " of " << broken << " are named; not so:" << wrong);
  CHECK(static_cast<double>(named) >= 0.95 * static_cast<double>(broken));
  if (std::getenv("GRAFT_VERBOSE")) WARN(named << " of " << broken << " are named; not so:" << wrong);
}
