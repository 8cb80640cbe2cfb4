#include "tests/matcher/search/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

const char* const attention = R"(
  input %q : f32[1,4,8,16]
  input %k : f32[1,4,8,16]
  input %v : f32[1,4,8,16]
  input %mask : f32[1,1,1,8]
  %kt = aten.transpose.int(%k, 2, 3) : f32[1,4,16,8]
  %s = aten.matmul.default(%q, %kt) : f32[1,4,8,8]
  %d = aten.mul.Tensor(%s, 0.25) : f32[1,4,8,8]
  %m = aten.add.Tensor(%mask, %d) : f32[1,4,8,8]
  %p = aten.softmax.int(%m, 3) : f32[1,4,8,8]
  %o = aten.matmul.default(%p, %v) : f32[1,4,8,16]
  return %o
)";

const char* const attentionPattern = R"(
  input %q : tensor
  input %k : tensor
  input %v : tensor
  input %mask : tensor
  input %scale : float
  %kt = aten.transpose.int(%k, -1, -2)
  %s = aten.matmul.default(%q, %kt)
  %d = aten.div.Tensor(%s, %scale)
  %m = aten.add.Tensor(%d, %mask)
  %p = aten.softmax.int(%m, -1)
  %o = aten.matmul.default(%p, %v)
  return %o
)";

}  // namespace

TEST_CASE("attention matches by meaning: swapped operands, inverse scale, dims counted from the other end") {
  const Rule r = rule(attentionPattern);
  const Graph g = graph(attention);
  const auto found = Matcher(g).findAll(r);
  REQUIRE(found.matches.size() == 1);
  const Match& m = found.matches[0];
  CHECK(m.nodes.size() == 6);
  CHECK(m.bindings[r.pattern.findValue("scale").index] == Argument(4.0));
  CHECK(m.bindings[r.pattern.findValue("mask").index] == Argument(g.findValue("mask")));
  CHECK(found.steps < 20);
}

TEST_CASE("exact rules do not take a product for a division") {
  Rule r = rule(attentionPattern);
  r.exact = true;
  CHECK(count(graph(attention), r) == 0);
}

TEST_CASE("a rewrite puts the replacement in the match's place and says what it did") {
  Rule r = rule(attentionPattern, R"(
  input %q : tensor
  input %k : tensor
  input %v : tensor
  input %mask : tensor
  input %scale : float
  %a = graft.attention.default(%q, %k, %v, %mask)
  return %a
)");
  const Graph after = applied(graph(attention), r, 1);
  CHECK(after.nodeCount() == 1);
  CHECK(nodeText(after, after.order()[0]).find("graft.attention.default(%q, %k, %v, %mask") != std::string::npos);
}

TEST_CASE("an inner value with another user, or returned by the graph, forbids the match") {
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b");
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b"), r) ==
        1);
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b, %a"),
              r) == 0);
  CHECK(count(graph("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n %c = "
                    "aten.neg.default(%a)\n return %b, %c"),
              r) == 0);
}

TEST_CASE("dead users and guards do not count as users") {
  const Rule r = rule("input %x : tensor\n %a = aten.relu.default(%x)\n %b = aten.tanh.default(%a)\n return %b",
                      "input %x : tensor\n %b = aten.neg.default(%x)\n return %b");
  const Graph g = graph(R"(
  input %x : tensor
  %a = aten.relu.default(%x)
  %dead = aten.neg.default(%a)
  !guard = aten._assert_tensor_metadata.default(%a, None)
  %b = aten.tanh.default(%a)
  return %b
)");
  CHECK(count(g, r) == 1);
  CHECK(applied(g, r, 1).nodeCount() == 1);
}

TEST_CASE("three linears of one value come as one group per layer, in order") {
  const Rule r = rule(R"(
  input %x : tensor
  input %w_q : tensor
  input %w_k : tensor
  input %w_v : tensor
  input %b_q : tensor
  input %b_k : tensor
  input %b_v : tensor
  %q = aten.linear.default(%x, %w_q, %b_q)
  %k = aten.linear.default(%x, %w_k, %b_k)
  %v = aten.linear.default(%x, %w_v, %b_v)
  return %q, %k, %v
)");
  std::string text;
  for (int i = 0; i < 6; ++i) text += "weight %w" + std::to_string(i) + " \"w" + std::to_string(i) + "\" : f32[4,4]\n";
  text += "weight %b \"b\" : f32[4]\n input %x0 : tensor\n";
  for (int l = 0; l < 2; ++l) {
    const std::string x = "%x" + std::to_string(l), n = std::to_string(l);
    for (int i = 0; i < 3; ++i)
      text +=
          "%l" + n + std::to_string(i) + " = aten.linear.default(" + x + ", %w" + std::to_string(3 * l + i) + ", %b)\n";
    text += "%y" + n + " = aten.matmul.default(%l" + n + "0, %l" + n + "1)\n%x" + std::to_string(l + 1) +
            " = aten.matmul.default(%y" + n + ", %l" + n + "2)\n";
  }
  text += "return %x2";
  const Graph g = graph(text);
  const auto found = Matcher(g).findAll(r);
  REQUIRE(found.matches.size() == 2);
  CHECK(g.node(found.matches[0].nodeOf[0]).name == "l00");
  CHECK(g.node(found.matches[0].nodeOf[1]).name == "l01");
  CHECK(g.node(found.matches[0].nodeOf[2]).name == "l02");
  CHECK(g.node(found.matches[1].nodeOf[2]).name == "l12");
}

TEST_CASE("a pathological pattern ends within the budget and says so") {
  std::string pattern = "input %x : tensor\n", text = pattern;
  // A binary tree of additions of 32 leaves, one of which is not what the pattern wants.
  const auto tree = [](std::string& out, const std::string& last) {
    int next = 0;
    std::vector<std::string> level;
    for (int i = 0; i < 32; ++i) {
      out += "%r" + std::to_string(i) + " = aten." + (i == 31 ? last : "relu") + ".default(%x)\n";
      level.push_back("%r" + std::to_string(i));
    }
    while (level.size() > 1) {
      std::vector<std::string> up;
      for (size_t i = 0; i < level.size(); i += 2) {
        up.push_back("%a" + std::to_string(next++));
        out += up.back() + " = aten.add.Tensor(" + level[i] + ", " + level[i + 1] + ")\n";
      }
      level = up;
    }
    out += "return " + level[0];
  };
  tree(pattern, "relu");
  tree(text, "tanh");
  const auto found = Matcher(graph(text)).findAll(rule(pattern));
  CHECK(found.matches.empty());
  CHECK(found.budgetExceeded);
}
