// How many floating-point operations kernels and operators compute.
#include "core/compile/fusion/work.h"

#include "core/compile/loops/text.h"
#include "tests/support/graphs.h"

using namespace graft;
using namespace graft::test;

namespace {

double countOf(std::string_view text, std::vector<int64_t> sizes = {}) {
  const auto program = loops::parseProgram(text);
  if (!program) FAIL(program.error().format());
  return floatingOperations(*program, sizes);
}

std::optional<double> countOfNode(std::string_view graph, std::string_view node) {
  const Graph g = graphOf(std::string(graph));
  return floatingOperations(g, g.findNode(node));
}

}  // namespace

TEST_CASE("each element's arithmetic counts, and index arithmetic does not") {
  CHECK(countOf(
            "loops 1\nsize n in 1..\ninput x: f32[n]\noutput y: f32[n]\nnest i < n\n  y[i] = exp(x[i]) * 2.0 + x[i]\n",
            {100}) == 300);
}

TEST_CASE("a row's sum counts once for its row") {
  // 8 rows of 16: an exp and an addition for each element of the sum, an exp, and a division of each result.
  const double n = countOf(
      "loops 1\ninput x: f32[8, 16]\noutput y: f32[8, 16]\nnest i < 8\n  local s: f32[]\n"
      "  s[] = sum(r < 16: exp(x[i, r]))\n  y[i, j] = exp(x[i, j]) / s[] for j < 16\n");
  CHECK(n == 8 * 16 * 4);
}

TEST_CASE("a linear layer multiplies and adds for each weight and row") {
  const auto n = countOfNode(R"(graph g {
  input %x : f32[8,384]
  input %w : f32[1536,384]
  %y = aten.linear.default(%x, %w) : f32[8,1536]
  return %y
})",
                             "y");
  REQUIRE(n);
  CHECK(*n == 2.0 * 8 * 384 * 1536);
}

TEST_CASE("attention counts both of its products") {
  const auto n = countOfNode(R"(graph g {
  input %q : f32[2,4,16,32]
  input %k : f32[2,4,24,32]
  input %v : f32[2,4,24,32]
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v) : f32[2,4,16,32]
  return %y
})",
                             "y");
  REQUIRE(n);
  CHECK(*n == 2 * 2.0 * 2 * 4 * 16 * 24 * 32);
}

TEST_CASE("what has sizes that vary is not counted") {
  CHECK(
      !countOfNode("graph g {\n  input %x : f32[s0,4]\n  %y = aten.relu.default(%x) : f32[s0,4]\n  return %y\n}", "y"));
}
