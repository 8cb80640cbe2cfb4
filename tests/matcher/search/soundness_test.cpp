// What forbids a match, each with a neighbour that is allowed.
#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

const char* const reluTanh = "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b";
const char* const negated = "input %x : tensor\n %b = aten.neg.default(%x)\n return %b";

Reason why(const Graph& g, const Rule& r) { return nearest(g, r).reason; }

}  // namespace

TEST_CASE("backtracking undoes what a failed order of operands bound") {
  const Rule r = rule(
      "input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %s = aten.add.Tensor(%a, %y)\n %m = "
      "aten.mul.Tensor(%s, %x)\n return %m");
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%y)\n "
                    "%s = aten.add.Tensor(%b, %a)\n %m = aten.mul.Tensor(%s, %x)\n return %m"),
              r) == 1);
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n input %z : tensor\n %a = aten.relu.default(%x)\n %b = "
                    "aten.relu.default(%y)\n %s = aten.add.Tensor(%b, %a)\n %m = aten.mul.Tensor(%s, %z)\n return %m"),
              r) == 0);
}

TEST_CASE("x*x is one user with two uses") {
  const Rule r =
      rule("input %x : tensor\n %a = aten.relu.default(%x)\n %m = aten.mul.Tensor(%a, %a)\n return %m", negated);
  applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %m = aten.mul.Tensor(%a, %a)\n return %m"), r, 1);
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%x)\n %m = "
                    "aten.mul.Tensor(%a, %b)\n return %m"),
              r) == 0);
}

TEST_CASE("two pattern nodes are two graph nodes") {
  const Rule r = rule(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%x)\n %m = aten.mul.Tensor(%a, %b)\n "
      "return %m");
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%x)\n %m = "
                    "aten.mul.Tensor(%a, %b)\n return %m"),
              r) == 1);
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %m = aten.mul.Tensor(%a, %a)\n return %m"), r) ==
        0);
}

TEST_CASE("NaN equals NaN, zero keeps its sign, 8 is 8.0, True is not 1") {
  const auto times = [](const std::string& c) {
    return "input %x : f32[2]\n %m = aten.mul.Tensor(%x, " + c + ")\n return %m";
  };
  CHECK(count(graph(times("nan")), rule(times("nan"))) == 1);
  CHECK(count(graph(times("0.0")), rule(times("-0.0"))) == 0);
  CHECK(count(graph(times("8.0")), rule(times("8"))) == 1);
  CHECK(count(graph(times("8")), rule(times("8.0"))) == 1);
  CHECK(count(graph(times("1")), rule(times("True"))) == 0);
}

TEST_CASE("an inverse factor stands for a division only where both compute the same") {
  const Rule third = rule("input %x : tensor\n %m = aten.div.Tensor(%x, 3.0)\n return %m");
  CHECK(count(graph("input %x : f32[2]\n %m = aten.mul.Tensor(%x, 0.3333333333333333)\n return %m"), third) == 1);
  CHECK(count(graph("input %x : f32[2]\n %m = aten.mul.Tensor(0.3333333333333333, %x)\n return %m"), third) == 1);
  CHECK(count(graph("input %x : f32[2]\n %m = aten.mul.Tensor(%x, 0.34)\n return %m"), third) == 0);
  const Rule twice = rule("input %x : tensor\n %m = aten.mul.Tensor(%x, 2)\n return %m");
  CHECK(count(graph("input %x : f32[2]\n %m = aten.div.Tensor(%x, 0.5)\n return %m"), twice) == 1);
  CHECK(count(graph("input %x : i64[2]\n %m = aten.div.Tensor(%x, 0.5)\n return %m"), twice) == 0);
}

TEST_CASE("matches do not overlap and the first wins") {
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%a)\n return %b");
  const Graph g = graph(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%a)\n %c = aten.relu.default(%b)\n "
      "return %c");
  const auto found = Matcher(g).findAll(r);
  REQUIRE(found.matches.size() == 1);
  CHECK(g.node(found.matches[0].anchor).name == "b");
}

TEST_CASE("adjacent matches are rewritten in one go") {
  const Rule r = rule(reluTanh, negated);
  const Graph after = applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n %c "
                                    "= aten.relu.default(%b)\n %d = aten.tanh.default(%c)\n return %d"),
                              r, 2);
  CHECK(after.nodeCount() == 2);
}

TEST_CASE("a write between reads forbids the match, a write before or after it does not") {
  const Rule r = rule(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.neg.default(%x)\n %c = aten.add.Tensor(%a, %b)\n "
      "return %c",
      "input %x : tensor\n %c = aten.tanh.default(%x)\n return %c");
  const Graph between = graph(
      "input %i : tensor\n %x = aten.clone.default(%i)\n %a = aten.relu.default(%x)\n %w = aten.add_.Tensor(%x, 1)\n "
      "%b = aten.neg.default(%x)\n %c = aten.add.Tensor(%a, %b)\n return %c");
  CHECK(count(between, r) == 0);
  CHECK(why(between, r) == Reason::Alias);
  const Graph before = graph(
      "input %i : tensor\n %x = aten.clone.default(%i)\n %w = aten.add_.Tensor(%x, 1)\n %a = aten.relu.default(%x)\n "
      "%b = aten.neg.default(%x)\n %c = aten.add.Tensor(%a, %b)\n return %c");
  CHECK(count(before, r) == 1);
  const Graph view = graph(
      "input %i : tensor\n %x = aten.clone.default(%i)\n %v = aten.view.default(%x, [-1])\n %a = "
      "aten.relu.default(%x)\n %w = aten.relu_.default(%v)\n %b = aten.neg.default(%x)\n %c = aten.add.Tensor(%a, "
      "%b)\n return %c");
  CHECK(count(view, r) == 0);
}

TEST_CASE("a match that writes may write only into memory that it makes") {
  const Rule r = rule("input %x : tensor\n %a = aten.neg.default(%x)\n %b = aten.relu_.default(%a)\n return %b",
                      "input %x : tensor\n %c = aten.tanh.default(%x)\n return %c");
  CHECK(count(graph("input %x : tensor\n %a = aten.neg.default(%x)\n %b = aten.relu_.default(%a)\n return %b"), r) ==
        1);
  const Rule direct = rule("input %x : tensor\n %b = aten.relu_.default(%x)\n return %b",
                           "input %x : tensor\n %c = aten.tanh.default(%x)\n return %c");
  CHECK(count(graph("input %x : tensor\n %b = aten.relu_.default(%x)\n return %b"), direct) == 0);
  CHECK(count(graph("input %x : tensor\n %n = aten.neg.default(%x)\n %b = aten.relu_.default(%n)\n %c = "
                    "aten.add.Tensor(%b, %n)\n return %c"),
              direct) == 0);
}

TEST_CASE("a result that is a view of the input stays one where it is written to") {
  const Rule r = rule("input %x : tensor\n %t = aten.transpose.int(%x, 0, 1)\n return %t",
                      "input %x : tensor\n %t = aten.neg.default(%x)\n return %t");
  CHECK(count(graph("input %i : f32[2,2]\n %x = aten.clone.default(%i)\n %t = aten.transpose.int(%x, 0, 1)\n %w = "
                    "aten.relu_.default(%t)\n return %x"),
              r) == 0);
  CHECK(
      count(graph("input %i : f32[2,2]\n %x = aten.clone.default(%i)\n %t = aten.transpose.int(%x, 0, 1)\n return %t"),
            r) == 1);
}

TEST_CASE("a replacement that hands its input on is refused where that would be written through") {
  const Rule r = rule("input %x : tensor\n %t = aten.clone.default(%x)\n return %t", "input %x : tensor\n return %x");
  CHECK(applied(graph("input %i : tensor\n %c = aten.clone.default(%i)\n return %c"), r, 1).nodeCount() == 0);
  CHECK(count(graph("input %i : tensor\n %c = aten.clone.default(%i)\n %w = aten.relu_.default(%c)\n return %w"), r) ==
        0);
}

TEST_CASE("random operators keep their order") {
  const Rule r = rule("input %x : tensor\n %a = aten.bernoulli.default(%x)\n %b = aten.relu.default(%a)\n return %b",
                      "input %x : tensor\n %b = aten.bernoulli.default(%x)\n return %b");
  CHECK(count(graph("input %x : tensor\n %a = aten.bernoulli.default(%x)\n %o = aten.bernoulli.default(%x)\n %b = "
                    "aten.relu.default(%a)\n return %b, %o"),
              r) == 0);
  CHECK(count(graph("input %x : tensor\n %a = aten.bernoulli.default(%x)\n %b = aten.relu.default(%a)\n %o = "
                    "aten.bernoulli.default(%x)\n return %b, %o"),
              r) == 1);
  const Rule gone =
      rule("input %x : tensor\n %a = aten.bernoulli.default(%x)\n %b = aten.relu.default(%a)\n return %b", negated);
  CHECK(count(graph("input %x : tensor\n %a = aten.bernoulli.default(%x)\n %b = aten.relu.default(%a)\n %o = "
                    "aten.bernoulli.default(%x)\n return %b, %o"),
              gone) == 0);
  // A dropout that is switched off draws nothing.
  const Rule dropped = rule(
      "input %x : tensor\n %a = aten.dropout.default(%x, <_>, <_>)\n %b = aten.relu.default(%a)\n return %b", negated);
  CHECK(count(graph("input %x : tensor\n %a = aten.dropout.default(%x, 0.1, False)\n %b = aten.relu.default(%a)\n %o = "
                    "aten.bernoulli.default(%x)\n return %b, %o"),
              dropped) == 1);
}

TEST_CASE("autocast regions are not crossed") {
  const Rule r = rule(reluTanh);
  const Graph g = graph(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %c = torch._enter_autocast(\"cuda\") : any\n %b = "
      "aten.tanh.default(%a)\n !e = torch._exit_autocast(%c)\n return %b");
  CHECK(count(g, r) == 0);
  CHECK(why(g, r) == Reason::Region);
}

TEST_CASE("a way around the match would be a cycle") {
  const Rule r = rule(
      "input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%y)\n return %a, %b",
      "input %x : tensor\n input %y : tensor\n %a = aten.add.Tensor(%x, %y)\n %b = aten.sub.Tensor(%x, %y)\n return "
      "%a, %b");
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%y)\n "
                    "return %a, %b"),
              r) == 1);
  const Graph cycle = graph(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %n = aten.neg.default(%a)\n %b = aten.tanh.default(%n)\n "
      "return %b");
  CHECK(count(cycle, r) == 0);
}

TEST_CASE("users of an early result move behind the replacement where they may") {
  const Rule r = rule(
      "input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%y)\n return %a, %b",
      "input %x : tensor\n input %y : tensor\n %a = aten.add.Tensor(%x, %y)\n %b = aten.sub.Tensor(%x, %y)\n return "
      "%a, %b");
  const Graph after = applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %u = aten.exp.default(%a)\n %y = "
                                    "aten.neg.default(%x)\n %b = aten.tanh.default(%y)\n return %u, %b"),
                              r, 1);
  CHECK(after.nodeCount() == 4);
}

TEST_CASE("passed-through and duplicated results") {
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n return %x, %a, %a",
                      "input %x : tensor\n %a = aten.tanh.default(%x)\n return %x, %a, %a");
  const Graph after = applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n return %a, %x"), r, 1);
  CHECK(after.nodeCount() == 1);
}

TEST_CASE("a rule whose replacement contains its pattern applies once per place") {
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n return %a",
                      "input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.relu.default(%a)\n return %b");
  CHECK(applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %t = aten.tanh.default(%a)\n return %t"), r, 1)
            .nodeCount() == 3);
}

TEST_CASE("a rule that makes room for itself applies until nothing is left") {
  const Rule r = rule("input %x : tensor\n %a = aten.neg.default(%x)\n %b = aten.neg.default(%a)\n return %b",
                      "input %x : tensor\n return %x");
  CHECK(applied(graph("input %x : tensor\n %a = aten.neg.default(%x)\n %b = aten.neg.default(%a)\n %c = "
                      "aten.neg.default(%b)\n %d = aten.neg.default(%c)\n return %d"),
                r, 2)
            .nodeCount() == 0);
}

TEST_CASE("nested lists match element by element") {
  const Rule r = rule(
      "input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %c = aten.cat.default([%a, %y], 1)\n "
      "return %c");
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %c = aten.cat.default([%a, "
                    "%y], 1)\n return %c"),
              r) == 1);
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %c = aten.cat.default([%y, "
                    "%a], 1)\n return %c"),
              r) == 0);
  CHECK(count(graph("input %x : tensor\n input %y : tensor\n %a = aten.relu.default(%x)\n %c = aten.cat.default([%a, "
                    "%y, %y], 1)\n return %c"),
              r) == 0);
}

TEST_CASE("weights are what is known before running") {
  const Rule r = rule("input %x : tensor\n input %w : tensor\n %l = aten.linear.default(%x, %w, None)\n return %l");
  CHECK(count(graph("weight %w \"w\" : f32[2,2]\n input %x : tensor\n %l = aten.linear.default(%x, %w)\n return %l"),
              r) == 1);
  CHECK(count(graph("weight %w \"w\" : f32[2,2]\n input %x : tensor\n %n = aten.neg.default(%w)\n %l = "
                    "aten.linear.default(%x, %n)\n return %l"),
              r) == 1);
  const Graph computed =
      graph("input %w : f32[2,2]\n input %x : tensor\n %l = aten.linear.default(%x, %w)\n return %l");
  CHECK(count(computed, r) == 0);
  CHECK(why(computed, r) == Reason::Weight);
  CHECK(count(graph("weight %w \"w\" : f32[2,2]\n input %x : tensor\n %z = aten.relu_.default(%w)\n %l = "
                    "aten.linear.default(%x, %w)\n return %l, %z"),
              r) == 0);
}

TEST_CASE("operators on weights run once, when the rule is applied") {
  const Rule r = rule(
      "input %x : tensor\n input %w_a : tensor\n input %w_b : tensor\n %l = aten.linear.default(%x, %w_a, None)\n %m = "
      "aten.linear.default(%x, %w_b, None)\n return %l, %m",
      "input %x : tensor\n input %w_a : tensor\n input %w_b : tensor\n %w = aten.cat.default([%w_a, %w_b], 0)\n %l = "
      "aten.linear.default(%x, %w, None)\n %m = aten.neg.default(%l)\n return %l, %m");
  const Graph after =
      applied(graph("weight %q \"self.query.weight\" : f32[2,2]\n weight %k \"self.key.weight\" : f32[2,2]\n input %x "
                    ": tensor\n %a = aten.linear.default(%x, %q)\n %b = aten.linear.default(%x, %k)\n return %a, %b"),
              r, 1);
  CHECK(after.nodeCount() == 2);
  REQUIRE(after.weights().size() == 1);
  CHECK(after.value(after.weights()[0]).path == "self.query_key.weight");
}

TEST_CASE("a refused rewrite leaves the graph as it was") {
  FakeSemantics semantics;
  semantics.refuse = "aten.tanh.default";
  Graph g = graph("input %x : tensor\n %a = aten.relu.default(%x)\n return %a");
  const std::string before = toText(g);
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n return %a",
                      "input %x : tensor\n %n = aten.neg.default(%x)\n %a = aten.tanh.default(%n)\n return %a");
  const auto run = applyRule(g, r, semantics);
  REQUIRE(run);
  CHECK(run->records.empty());
  REQUIRE(run->refused.size() == 1);
  CHECK(toText(g) == before);
}

TEST_CASE("types are inferred: a replacement of another shape is refused") {
  FakeSemantics semantics;
  Graph g = graph(
      "input %x : f32[2,3]\n %a = aten.transpose.int(%x, 0, 1) : f32[3,2]\n %b = aten.relu.default(%a) : f32[3,2]\n "
      "return %b");
  const Rule r = rule("input %x : tensor\n %a = aten.transpose.int(%x, 0, 1)\n %b = aten.relu.default(%a)\n return %b",
                      "input %x : tensor\n %b = aten.relu.default(%x)\n return %b");
  const auto run = applyRule(g, r, semantics);
  REQUIRE(run);
  CHECK(run->records.empty());
  REQUIRE(run->refused.size() == 1);
  CHECK_THAT(run->refused[0], ContainsSubstring("[2, 3]"));
}

TEST_CASE("control flow: parts in two blocks are not one match, whole blocks may hold matches") {
  const Rule r = rule(reluTanh, negated);
  const Graph g = graph(R"(
  input %c : bool
  input %x : tensor
  %i = prim.If(%c) : tensor {
    %a = aten.relu.default(%x)
    %b = aten.tanh.default(%a)
    return %b
  } {
    return %x
  }
  return %i
)");
  CHECK(applied(g, r, 1).nodeCount() == 2);
  CHECK(count(graph(R"(
  input %c : bool
  input %x : tensor
  %a = aten.relu.default(%x)
  %i = prim.If(%c) : tensor {
    %b = aten.tanh.default(%a)
    return %b
  } {
    return %x
  }
  return %i
)"),
              r) == 0);
}

TEST_CASE("alternatives and optional operators") {
  const Rule r = rule(
      "input %x : tensor\n %a = aten.relu.default(%x)\n %d = aten.dropout.default(%a, <_>, <_>)\n %o = "
      "pattern.any_of(%d, %a) : tensor\n %b = aten.tanh.default(%o)\n return %b",
      negated);
  applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b"), r, 1);
  applied(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %d = aten.dropout.default(%a, 0.1, False)\n %b = "
                "aten.tanh.default(%d)\n return %b"),
          r, 1);
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %d = aten.neg.default(%a)\n %b = "
                    "aten.tanh.default(%d)\n return %b"),
              r) == 0);
}

TEST_CASE("module calls match by type and by name, with their inputs") {
  const char* const text = R"(
  module m0 "fc1" torch.nn.modules.linear.Linear
  module m1 "fc2" torch.nn.modules.linear.Linear
  weight %w1 "fc1.weight" : f32[2,2]
  weight %w2 "fc2.weight" : f32[2,2]
  input %x : f32[2,2]
  %a = aten.linear.default(%x, %w1) : f32[2,2] @m0
  %t = aten.tanh.default(%a) : f32[2,2]
  %b = aten.linear.default(%t, %w2) : f32[2,2] @m1
  return %b
)";
  CHECK(
      count(graph(text),
            rule("input %x : tensor\n %y = pattern.call_module(%x, type=\"torch.nn.Linear\") : tensor\n return %y")) ==
      2);
  CHECK(count(graph(text),
              rule("input %x : tensor\n %y = pattern.call_module(%x, name=\"fc[2-9]\") : tensor\n return %y")) == 1);
  CHECK(
      count(graph(text),
            rule("input %x : tensor\n %y = pattern.call_module(%x, type=\"torch.nn.Conv2d\") : tensor\n return %y")) ==
      0);
  const Rule swap = rule(
      "input %x : tensor\n %fc1 = pattern.call_module(%x, type=\"torch.nn.Linear\") : tensor\n %y = "
      "aten.tanh.default(%fc1)\n return %y",
      "input %x : tensor\n %fc1 = pattern.call_module(%x, keep=\"fc1\") : tensor\n %y = aten.relu.default(%fc1)\n "
      "return %y");
  const Graph after = applied(graph(text), swap, 1);
  CHECK(after.findNode("a"));
  CHECK(after.findNode("relu"));
  CHECK_FALSE(after.findNode("t"));
}

TEST_CASE("operators match by name expression") {
  const Rule r =
      rule("input %x : tensor\n %y = pattern.call_function(%x, name=\"aten\\\\.(relu|gelu)\") : tensor\n return %y");
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.gelu.default(%a)\n %c = "
                    "aten.tanh.default(%b)\n return %c"),
              r) == 2);
}

TEST_CASE("a rule may be kept to a scope") {
  Rule r = rule("input %x : tensor\n %y = aten.relu.default(%x)\n return %y");
  r.scope = "encoder\\.\\d+";
  const Graph g = graph(
      "module m0 \"encoder.0\" A\n module m1 \"encoder.0.inner\" B in m0\n module m2 \"decoder.0\" A\n input %x : "
      "tensor\n %a = aten.relu.default(%x) : tensor @m1\n %b = aten.relu.default(%a) : tensor @m2\n return %b");
  const auto found = Matcher(g).findAll(r);
  REQUIRE(found.matches.size() == 1);
  CHECK(found.matches[0].scope == "encoder.0.inner");
}
