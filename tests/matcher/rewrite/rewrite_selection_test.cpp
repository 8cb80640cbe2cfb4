// Which rewrites a whole passes with, where each passes on its own and all together fail.
#include "matcher/rewrite/rewrite_selection.h"

#include <fmt/format.h>

#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;
using Verdict = RewriteVerification::Verdict;

namespace {

/// Verifies everything, and says that each rewrite is a little further off than the one before it.
struct Growing : RewriteCheck {
  void prepare(const Graph&, const std::vector<std::vector<NodeId>>&) override { ++searches; }
  RewriteVerification check(const RewriteCandidate&) override {
    RewriteVerification v;
    v.verdict = Verdict::Verified;
    v.maxAbs = static_cast<double>(++checked);
    return v;
  }
  RewriteVerification checkWhole(const Graph&, const Graph&, bool) override { return {}; }
  size_t searches = 0, checked = 0;
};

/// Six ReLUs in a row, and a rule that makes each a tanh.
struct Row {
  Row() {
    std::string text = "input %x : f32[2,3]\n";
    for (int i = 0; i < 6; ++i)
      text += fmt::format("%r{} = aten.relu.default(%{}) : f32[2,3]\n", i, i == 0 ? "x" : fmt::format("r{}", i - 1));
    original = graph(text + "return %r5");
    tanh = rule("input %x : tensor\n%a = aten.relu.default(%x)\nreturn %a",
                "input %x : tensor\n%t = aten.tanh.default(%x)\nreturn %t");
  }
  RuleRun run() {
    now = original;
    auto done = applyRule(now, tanh, semantics, {&selection, false});
    REQUIRE(done);
    return std::move(*done);
  }
  /// Which of the six are rewritten now.
  std::string made() const {
    std::string out;
    for (NodeId n : now.order()) out += now.node(n).op->name == "aten.tanh.default" ? 't' : 'r';
    return out;
  }
  Graph original, now;
  Rule tanh;
  FakeSemantics semantics;
  Growing growing;
  RewriteSelection selection;
};

}  // namespace

TEST_CASE("a selection keeps what the first run made, and makes a part of it again") {
  Row row;
  row.selection.ask(&row.growing);
  row.run();
  CHECK(row.made() == "tttttt");
  REQUIRE(row.selection.made().size() == 6);
  CHECK(row.selection.made()[2].verification.maxAbs == 3);

  row.selection.only({0, 2, 5}, "because");
  const RuleRun again = row.run();
  CHECK(row.made() == "trtrrt");
  CHECK(row.growing.checked == 6);  // nobody is asked twice
  REQUIRE(again.rolledBack.size() == 3);
  for (const RolledBack& back : again.rolledBack) CHECK(back.verification.why == "because");
  REQUIRE(again.records.size() == 3);
  CHECK(again.records[1].verification.maxAbs == 3);
}

TEST_CASE("the least rewrites are taken back with which the whole fails") {
  const auto kept = [](const std::function<bool(const std::string&)>& passes) {
    Row row;
    row.selection.ask(&row.growing);
    row.run();
    const Kept found = keepMost(row.selection, "because", 60, [&] {
      row.run();
      return passes(row.made());
    });
    CHECK(found.isComplete());
    CHECK(found.runs <= 12);
    row.run();  // the selection is what was kept
    return row.made();
  };
  CHECK(kept([](const std::string& made) { return made[3] == 'r'; }) == "tttrtt");
  CHECK(kept([](const std::string& made) { return made[0] == 'r' && made[5] == 'r'; }) == "rttttr");
  CHECK(kept([](const std::string&) { return false; }) == "rrrrrr");
  // Small differences add up: those that differ least stay.
  CHECK(kept([](const std::string& made) { return std::count(made.begin(), made.end(), 't') < 5; }) == "ttttrr");
}

TEST_CASE("what there was no time to try is not kept") {
  Row row;
  row.selection.ask(&row.growing);
  row.run();
  const Kept found = keepMost(row.selection, "because", 0, [] { return true; });
  CHECK_FALSE(found.isComplete());
  CHECK(found.numbers.empty());
}
