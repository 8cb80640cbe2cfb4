#include "core/ir/subgraph.h"

#include <fmt/format.h>

#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

TEST_CASE("what is computed from weights alone depends on no input") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[4,4]
  weight %w "w" : f32[4,4]
  %a = aten.relu.default(%w) : f32[4,4]
  %b = aten.add.Tensor(%a, %w, alpha=1) : f32[4,4]
  %c = aten.add.Tensor(%b, %x, alpha=1) : f32[4,4]
  %d = aten.relu_.default(%a) : f32[4,4]
  return %b, %c, %d
})");
  CHECK(dependsOnWeightsAlone(g, g.findValue("w")));
  CHECK(dependsOnWeightsAlone(g, g.findValue("b")));
  CHECK_FALSE(dependsOnWeightsAlone(g, g.findValue("x")));
  CHECK_FALSE(dependsOnWeightsAlone(g, g.findValue("c")));
  CHECK_FALSE(dependsOnWeightsAlone(g, g.findValue("d")));
}

TEST_CASE("each value that a weight leads to is looked at once, however many ways lead there") {
  std::string text = "graph g {\n weight %v0 \"w\" : f32[4]\n";
  for (int i = 1; i <= 60; ++i)
    text += fmt::format(" %v{0} = aten.add.Tensor(%v{1}, %v{1}, alpha=1) : f32[4]\n", i, i - 1);
  const Graph g = graphOf(text + " return %v60\n}");
  CHECK(dependsOnWeightsAlone(g, g.findValue("v60")));
}
