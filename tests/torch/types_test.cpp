// Types that LibTorch infers: what an operator made of equal arguments before is not asked again, and nothing else is
// mistaken for it.
#include "core/ir/semantics.h"
#include "core/text/text.h"
#include "core/torch/model.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using namespace graft;

namespace {

std::vector<std::string> types(const Semantics& s, std::string_view text) {
  auto g = parseText(text, s.operators());
  REQUIRE_RESULT(g);
  std::vector<std::string> out;
  for (NodeId n : g->order()) {
    auto inferred = s.inferTypes(*g, n);
    out.push_back(inferred ? toString(inferred->front()) : "refused");
  }
  return out;
}

}  // namespace

TEST_CASE("inferred types differ where shapes, dtypes, literals, devices or symbols do, however often they are asked") {
  const auto semantics = makeTorchSemantics();
  constexpr std::string_view text = R"(graph g {
    input %a : f32[2,3]
    input %b : f32[2,3]
    input %c : f32[5,3]
    input %d : f16[2,3]
    input %e : f32[s0,3]
    input %f : f32[s1,3]
    input %u : tensor
    %1 = aten.sum.dim_IntList(%a, [0]) : tensor
    %2 = aten.sum.dim_IntList(%b, [0]) : tensor
    %3 = aten.sum.dim_IntList(%b, [1]) : tensor
    %4 = aten.sum.dim_IntList(%c, [1]) : tensor
    %5 = aten.sum.dim_IntList(%d, [1]) : tensor
    %6 = aten.sum.dim_IntList(%e, [1]) : tensor
    %7 = aten.sum.dim_IntList(%f, [1]) : tensor
    %8 = aten.sum.dim_IntList(%u, [1]) : tensor
    %9 = aten.cat.default([%a, %c]) : tensor
    %10 = aten.cat.default([%a, %c, %c]) : tensor
    %11 = aten.cat.default([%a, %c], 1) : tensor
    return %11
  })";
  const std::vector<std::string> wanted{"f32[3]",  "f32[3]", "f32[2]",   "f32[5]",    "f16[2]", "f32[s0]",
                                        "f32[s1]", "tensor", "f32[7,3]", "f32[12,3]", "refused"};
  CHECK(types(*semantics, text) == wanted);
  CHECK(types(*semantics, text) == wanted);  // now from what is remembered
}

TEST_CASE("more kinds of calls than are remembered are inferred all the same") {
  const auto semantics = makeTorchSemantics();
  for (int round = 0; round < 2; ++round)
    for (int i = 1; i <= 40; ++i) {
      const std::string n = std::to_string(i);
      CHECK(types(*semantics,
                  "graph g {\n input %a : f32[" + n + ",3]\n %r = aten.relu.default(%a) : tensor\n return %r\n}") ==
            std::vector<std::string>{"f32[" + n + ",3]"});
    }
}
