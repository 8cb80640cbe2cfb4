#include "matcher/rule/rank.h"

#include <fmt/format.h>

#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

TEST_CASE("the number of dimensions follows from what a value is made of") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[2,3]
  input %unknown : tensor
  %a = aten.relu.default(%x) : tensor
  %b = aten.unsqueeze.default(%a, 0) : tensor
  %c = aten.add.Tensor(%a, %b, alpha=1) : tensor
  %d = aten.add.Tensor(%c, %unknown, alpha=1) : tensor
  return %c, %d
})");
  CHECK(knownRank(g, g.findValue("a")) == 2);
  CHECK(knownRank(g, g.findValue("b")) == 3);
  CHECK(knownRank(g, g.findValue("c")) == 3);
  CHECK_FALSE(knownRank(g, g.findValue("d")));
}

TEST_CASE("each value is asked once for its dimensions, however many ways lead there") {
  std::string text = "graph g {\n input %v0 : f32[4]\n";
  for (int i = 1; i <= 24; ++i)
    text += fmt::format(" %v{0} = aten.add.Tensor(%v{1}, %v{1}, alpha=1) : tensor\n", i, i - 1);
  const Graph g = graphOf(text + " return %v24\n}");
  CHECK(knownRank(g, g.findValue("v24")) == 1);
}
