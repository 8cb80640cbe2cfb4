// The one place where graphs change: what an edit notes, what cancelling takes back, and what listeners hear.
#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;
using Names = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

namespace {

struct Heard : RewriteListener {
  void onRecord(const Record& r, const Graph& g) override {
    records.push_back(r);
    nodesThen.push_back(g.nodeCount());
    CHECK(verify(g).ok());
  }
  void onRolledBack(const RolledBack& r, const Graph&) override { rolledBack.push_back(r); }
  std::vector<Record> records;
  std::vector<size_t> nodesThen;
  std::vector<RolledBack> rolledBack;
};

const char* const twoRelus = R"(input %x : f32[2,3]
%a = aten.relu.default(%x) : f32[2,3]
%b = aten.relu.default(%a) : f32[2,3]
return %b)";

}  // namespace

TEST_CASE("an edit is one record of what was inserted, replaced and erased") {
  Graph g = graph(twoRelus);
  FakeSemantics semantics;
  Heard heard;
  GraphEditor editor(g, semantics, "P", &heard);
  const NodeId a = g.findNode("a");
  editor.begin(a);
  NodeBuilder b(editor, a);
  const Argument made = b.call("aten.tanh.default", {Argument(g.findValue("x"))});
  REQUIRE_FALSE(b.error());
  editor.replaceValue(g.output(a), made.valueId());
  editor.erase(a);
  CHECK(heard.records.empty());  // not final yet
  editor.commit();
  REQUIRE(heard.records.size() == 1);
  const Record& r = heard.records[0];
  CHECK(r.rule == "P");
  CHECK(r.addedNames == Names{"tanh"});
  CHECK(r.removedNames == Names{"a"});
  CHECK(r.outputs == Pairs{{"a", "tanh"}});
  CHECK(heard.nodesThen == std::vector<size_t>{2});
  CHECK(editor.takeRecords().size() == 1);
  CHECK(editor.records().empty());
}

TEST_CASE("cancelling takes nodes and weights back and leaves no record") {
  Graph g = graph(twoRelus);
  FakeSemantics semantics;
  semantics.refuse = "aten.sigmoid.default";
  Heard heard;
  GraphEditor editor(g, semantics, "P", &heard);
  const NodeId a = g.findNode("a");
  editor.begin(a);
  editor.addWeight("w", Type::tensor(), std::make_shared<FakeSemantics::NoData>());
  NodeBuilder b(editor, a);
  b.call("aten.tanh.default", {Argument(g.findValue("x"))});
  b.call("aten.sigmoid.default", {Argument(g.findValue("x"))});
  REQUIRE(b.error());
  editor.cancel();
  CHECK(toText(g) == toText(graph(twoRelus)));
  CHECK(editor.records().empty());
  CHECK(heard.records.empty());
}

TEST_CASE("a literal takes a value's place in arguments, lists and returns") {
  Graph g = graph(R"(input %x : f32[2,3]
%n = aten.size.int(%x, 0) : int
%y = aten.view.default(%x, [%n, 3]) : f32[2,3]
return %y, %n)");
  FakeSemantics semantics;
  GraphEditor editor(g, semantics, "P");
  const NodeId n = g.findNode("n");
  editor.begin(n);
  editor.replaceByLiteral(g.output(n), Argument(int64_t{2}));
  editor.erase(n);
  editor.commit();
  CHECK(verify(g).ok());
  CHECK(toText(g).find("[2, 3]") != std::string::npos);
  CHECK(g.returns()[1] == Argument(int64_t{2}));
}

TEST_CASE("listeners hear of each rewrite of a rule in order, and of matches that are left as they were") {
  Rule r = rule("input %x : tensor\n%a = aten.relu.default(%x)\nreturn %a",
                "input %x : tensor\n%t = aten.tanh.default(%x)\nreturn %t");
  FakeSemantics semantics;
  Graph g = graph(twoRelus);
  Heard heard;
  const auto run = applyRule(g, r, semantics, {nullptr, false, &heard});
  REQUIRE(run);
  REQUIRE(run->records.size() == 2);
  REQUIRE(heard.records.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(heard.records[i].removedNames == run->records[i].removedNames);
    CHECK(heard.records[i].addedNames == run->records[i].addedNames);
  }

  struct Refusal : RewriteCheck {
    void prepare(const Graph&, const std::vector<std::vector<NodeId>>&) override {}
    RewriteVerification check(const RewriteCandidate& c) override {
      CHECK_FALSE(c.after.empty());
      RewriteVerification v;
      v.verdict = RewriteVerification::Verdict::Failed;
      v.why = "the numbers differ";
      return v;
    }
    RewriteVerification checkWhole(const Graph&, const Graph&, bool) override { return {}; }
  } refusal;
  Graph same = graph(twoRelus);
  Heard refused;
  const auto none = applyRule(same, r, semantics, {&refusal, false, &refused});
  REQUIRE(none);
  CHECK(none->records.empty());
  CHECK(refused.records.empty());
  CHECK(refused.rolledBack.size() == none->rolledBack.size());
  REQUIRE(refused.rolledBack.size() == 2);
  CHECK(refused.rolledBack[0].node == "a");
  CHECK(toText(same) == toText(graph(twoRelus)));
}
