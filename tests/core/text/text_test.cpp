#include "core/text/text.h"
#include "core/ir/calls/default_values.h"

#include "tests/support/catch.h"
#include "tests/support/operators.h"

using namespace graft;

namespace {

const char* const encoder = R"(graph Tiny {
  module m0 "layer.0" my.Layer
  module m1 "layer.0.fc" torch.nn.Linear(in_features=4, out_features=2, bias=True) in m0
  weight %w "layer.0.fc.weight" : f32[2,4]
  buffer %b "layer.0.fc.bias" : f32[2]
  input %x : f32[s0,4]
  input %n : int
  %linear = aten.linear.default(%x, %w, %b) : f32[s0,2] @m1 "tiny.py":12
  %softmax = aten.softmax.int(%linear, dim=-1, dtype=torch.float16) : f16[s0,2] @m0 "tiny.py":13:9:20
  %values, %indices = aten.max.dim(%softmax, dim=1, keepdim=False) : f16[s0], i64[s0]
  %cat = aten.cat.default([%values, %values], dim=0) : f16[*]
  %view = aten.view.default(%cat, size=[%n, -1]) : f16[?,?]
  !print = my.unknown.op(%view, "a \"quoted\"\n text", 1.0, 1e-12, -inf, nan, <contiguous_format>, device("cuda:0"), sym("2*s0"), ..., slice(None, 3, None), {"k": (1,)}, complex(0.0, -1.0), flag=True)
  %if = prim.If(%n) : tensor @m0 "tiny.py":14 {
    %relu = aten.relu.default(%x) : tensor
    return %relu
  } {
    return %x
  }
  return %view, [%indices, (%if, None)]
}
)";

std::string errorOf(std::string_view text) {
  const auto g = parseText(text, testOperators(), "f.graph");
  REQUIRE_FALSE(g);
  return g.error().format();
}

}  // namespace

TEST_CASE("canonical text prints and parses back to itself") {
  const auto g = parseText(encoder, testOperators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  REQUIRE(toText(*g) == encoder);
}

TEST_CASE("missing arguments take the schema's defaults") {
  const auto g =
      parseText("graph _ {\n input %x : tensor\n %y = aten.softmax.int(%x, -1)\n return %y\n}", testOperators());
  REQUIRE(g);
  REQUIRE(g->node(g->findNode("y")).args.size() == 3);
  REQUIRE(g->node(g->findNode("y")).args[2].isNone());
}

TEST_CASE("a value after a named argument belongs to the next parameter") {
  const std::string text =
      "graph _ {\n  input %x : tensor\n  input %w : tensor\n"
      "  %y = aten.layer_norm.default(%x, normalized_shape=[8], %w, bias=None, eps=1e-05, cudnn_enable=True) : tensor\n"
      "  return %y\n}\n";
  const auto g = parseText(text, testOperators());
  REQUIRE(g);
  CHECK(toText(*g) == text);
}

TEST_CASE("errors in a text name line, column and what was expected") {
  REQUIRE_THAT(errorOf("graph g {\n  input %x : tensor\n  %y = aten.relu.default(%z)\n  return %y\n}"),
               ContainsSubstring("f.graph:3:27: no value of that name is defined above"));
  REQUIRE_THAT(errorOf("graph g {\n  input %x : f31[2]\n"), ContainsSubstring("f.graph:2:14: expected a type"));
  REQUIRE_THAT(errorOf("graph g {\n  input %x : tensor\n  %y = aten.softmax.int(%x, dims=1)"),
               ContainsSubstring("aten.softmax.int has no parameter dims"));
  REQUIRE_THAT(errorOf("graph g {\n  input %x : tensor\n  %y = aten.softmax.int(%x)"), ContainsSubstring("needs dim"));
  REQUIRE_THAT(errorOf(""), ContainsSubstring("expected 'graph'"));
  REQUIRE_THAT(errorOf("graph g { input %x : tensor input %x : tensor return }"), ContainsSubstring("defined twice"));
}

TEST_CASE("deep nests are refused, not followed") {
  REQUIRE_THAT(errorOf("graph g { !n = a.b.c(" + std::string(200000, '[')), ContainsSubstring("nested too deep"));
  REQUIRE_THAT(errorOf("graph g { !n = a.b.c(" + std::string(200000, '(')), ContainsSubstring("nested too deep"));
}

TEST_CASE("symbols that stand in no size are not printed") {
  auto g = parseText(R"(graph g {
    symbol s0 [2, 8]
    symbol s1 [2, 8]
    symbol s2 [2, 8]
    symbol s3 [2, 8]
    symbol gone [2, 8]
    input %x : f32[s0]
    input %xs : list[f32[2*s1 + 1]]
    %y = aten.view.default(%x, [-1, sym("s2//2")])
    return %y, %xs
  })",
                     testOperators());
  REQUIRE(g);
  const std::string text = toText(*g);
  for (const char* used : {"symbol s0", "symbol s1", "symbol s2"}) CHECK_THAT(text, ContainsSubstring(used));
  CHECK_THAT(text, !ContainsSubstring("symbol s3"));
  CHECK_THAT(text, !ContainsSubstring("gone"));
}

TEST_CASE("defaults of arguments are printed, read and checked") {
  const std::string text = R"(graph Called {
  input %x : f32[2]
  input %mask : optional[tensor]
  input %times : int
  arguments ["x", "mask", "times"] tree("builtins.tuple", "null", tree("builtins.tuple", "null", %x, %mask=None, %times=3), tree("builtins.dict", "[]"))
  return %x
}
)";
  const auto g = parseText(text, testOperators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  CHECK(toText(*g) == text);
  CHECK_FALSE(findDefault(*g, g->inputs()[0]));
  REQUIRE(findDefault(*g, g->inputs()[1]));
  CHECK(findDefault(*g, g->inputs()[1])->isNone());
  REQUIRE(findDefault(*g, g->inputs()[2]));
  CHECK(*findDefault(*g, g->inputs()[2]) == Argument(int64_t{3}));
  std::string wrong = text;
  wrong.replace(wrong.find("%times=3"), 8, "%times=%x");
  CHECK_THAT(errorOf(wrong), ContainsSubstring("a default is a literal"));
}

TEST_CASE("ranges of symbols are printed, read and checked") {
  const std::string text =
      "graph Ranged {\n  symbol s0 [2, 128]\n  symbol u0 [-inf, inf]\n  input %x : f32[s0,u0]\n  return %x\n}\n";
  const auto g = parseText(text, testOperators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  CHECK(toText(*g) == text);
  REQUIRE(g->findSymbol("s0"));
  CHECK(*g->findSymbol("s0") == Symbol{"s0", 2, 128});
  CHECK(*g->findSymbol("u0") == Symbol{"u0", std::nullopt, std::nullopt});
  CHECK_FALSE(g->findSymbol("s1"));
  CHECK_THAT(errorOf("graph g {\n symbol s0 [2, 1]\n return\n}"), ContainsSubstring("at least 2 and at most 1"));
  CHECK_THAT(errorOf("graph g {\n symbol s0 [2, 3]\n symbol s0 [2, 4]\n return\n}"), ContainsSubstring("two ranges"));
  CHECK_THAT(errorOf("graph g {\n symbol 2s [2, 3]\n return\n}"), ContainsSubstring("no name of a symbol"));
  CHECK_THAT(errorOf("graph g {\n symbol s0 [2 3]\n return\n}"), ContainsSubstring("expected ','"));
}
