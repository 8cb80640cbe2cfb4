// Types that LibTorch infers: what an operator made of equal arguments before is not asked again, and nothing else is
// mistaken for it.
#include "core/ir/semantics.h"
#include "core/text/text.h"
#include "core/torch/semantics.h"
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

namespace {

/// The types of all nodes' first outputs, inferred in one go.
std::vector<std::string> allTypes(std::string_view text) {
  const auto semantics = makeTorchSemantics();
  auto g = parseText(text, semantics->operators());
  REQUIRE_RESULT(g);
  std::vector<Type> inputs;
  for (ValueId v : g->inputs()) inputs.push_back(g->value(v).type);
  REQUIRE_RESULT(inferAllTypes(*g, inputs));
  std::vector<std::string> out;
  for (NodeId n : g->order()) out.push_back(toString(g->value(g->node(n).outputs[0]).type));
  return out;
}

}  // namespace

TEST_CASE("equal calls in a graph have equal types; calls that differ in strides, dtypes or in one run are not equal") {
  // %7 and %8 view [4,4] as [16]: the transposed one cannot be, and says so by having no type.
  CHECK(allTypes(R"(graph g {
    input %x : f32[4,4]
    input %h : f16[4,4]
    input %s : f32[s0,4]
    input %t : f32[s1,4]
    %1 = aten.relu.default(%x) : tensor
    %2 = aten.relu.default(%1) : tensor
    %3 = aten.relu.default(%h) : tensor
    %4 = aten.relu.default(%s) : tensor
    %5 = aten.relu.default(%t) : tensor
    %6 = aten.t.default(%x) : tensor
    %7 = aten.flatten.using_ints(%2, 0, 1) : tensor
    %8 = aten.cat.default([%s, %t], 0) : tensor
    %9 = aten.cat.default([%t, %s], 0) : tensor
    %10 = aten.cat.default([%s, %s], 0) : tensor
    %11 = aten.sum.dim_IntList(%x, [0], False) : tensor
    %12 = aten.sum.dim_IntList(%x, [0], True) : tensor
    %13 = aten.sum.dim_IntList(%1, [0], False) : tensor
    return %13
  })") == std::vector<std::string>{"f32[4,4]", "f32[4,4]", "f16[4,4]", "f32[s0,4]", "f32[s1,4]", "f32[4,4]", "f32[16]",
                                   "f32[s0 + s1,4]", "f32[s0 + s1,4]", "f32[2*s0,4]", "f32[4]", "f32[1,4]", "f32[4]"});
  // A view that memory's order forbids is refused, though the same call of another tensor of that shape was not.
  const auto semantics = makeTorchSemantics();
  auto g = parseText(R"(graph g {
    input %x : f32[4,4]
    %1 = aten.view.default(%x, [16]) : tensor
    %2 = aten.t.default(%x) : tensor
    %3 = aten.view.default(%2, [16]) : tensor
    return %3
  })",
                     semantics->operators());
  REQUIRE_RESULT(g);
  const Status refused = inferAllTypes(*g, {});
  REQUIRE(!refused);
  CHECK(refused.error().message.find("view size is not compatible") != std::string::npos);
}

TEST_CASE("what changes a shape in place changes it for one of two equal calls") {
  CHECK(allTypes(R"(graph g {
    input %x : f32[4]
    %1 = aten.relu.default(%x) : tensor
    %2 = aten.relu.default(%x) : tensor
    %3 = aten.unsqueeze_.default(%1, 0) : tensor
    %4 = aten.neg.default(%2) : tensor
    %5 = aten.neg.default(%1) : tensor
    %6 = aten.relu.default(%x) : tensor
    return %6
  })")[3] == "f32[4]");
}

TEST_CASE("attention has the sizes that its operands have together") {
  CHECK(allTypes(R"(graph g {
    input %q : f32[1,4,5,8]
    input %k : f32[s0,4,s1,8]
    input %v : f32[s0,4,s1,6]
    input %m : f32[s0,1,1,s1]
    input %g : f32[s0,2,s1,8]
    input %r : f32[5,8]
    input %x : f32[s0,s1,8]
    %1 = aten.scaled_dot_product_attention.default(%q, %k, %v) : tensor
    %2 = aten.scaled_dot_product_attention.default(%k, %q, %q) : tensor
    %3 = aten.scaled_dot_product_attention.default(%q, %q, %q, %m) : tensor
    %4 = aten.scaled_dot_product_attention.default(%k, %g, %g, enable_gqa=True) : tensor
    %5 = aten.scaled_dot_product_attention.default(%r, %x, %x) : tensor
    return %5
  })") ==
        std::vector<std::string>{"f32[s0,4,5,6]", "f32[s0,4,s1,8]", "f32[s0,4,5,8]", "f32[s0,4,s1,8]", "f32[s0,5,8]"});
}
