#include "core/text/python_code.h"

#include "core/text/fx_table.h"
#include "core/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

using namespace graft;

namespace {

// linear(x + param).clamp(min=0.0, max=1.0), as an FX importer would spell its origins.
Graph myModule() {
  auto g = parseText(R"(graph MyModule {
  module m0 "linear" torch.nn.modules.linear.Linear(in_features=4, out_features=5, bias=True)
  weight %param "param" : f32[3,4]
  weight %linear_weight "linear.weight" : f32[5,4]
  weight %linear_bias "linear.bias" : f32[5]
  input %x : tensor
  %add = aten.add.Tensor(%x, %param) : tensor
  %linear = aten.linear.default(%add, %linear_weight, %linear_bias) : tensor @m0
  %clamp = aten.relu.default(%linear) : tensor
  return %clamp
})",
                     testOperators());
  REQUIRE(g);
  const auto value = [&](const char* n) { return Argument(g->findValue(n)); };
  const auto origin = [&](const char* n, Origin o) {
    g->setOrigin(g->findNode(n), std::make_shared<Origin>(std::move(o)));
  };
  origin("add", {"call_function", "add", "<built-in function add>", "operator.add", {value("x"), value("param")}, {}});
  origin("linear", {"call_module", "linear", "linear", "", {value("add")}, {}});
  origin("clamp",
         {"call_method", "clamp", "clamp", "", {value("linear")}, {{"min", Argument(0.0)}, {"max", Argument(1.0)}}});
  return std::move(*g);
}

}  // namespace

TEST_CASE("code reads as torch.fx writes it, with values dropped after their last use") {
  REQUIRE(*pythonCode(myModule()) ==
          "def forward(self, x):\n"
          "    param = self.param\n"
          "    add = x + param;  x = param = None\n"
          "    linear = self.linear(add);  add = None\n"
          "    clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None\n"
          "    return clamp\n");
}

TEST_CASE("the table has FX's columns and the used modules with their constructor's values") {
  const std::string report = fxReport(myModule());
  CHECK_THAT(report, ContainsSubstring("call_function  add     <built-in function add>  (x, param)  {}"));
  CHECK_THAT(report,
             ContainsSubstring("call_method    clamp   clamp                    (linear,)   {'min': 0.0, 'max': 1.0}"));
  CHECK_THAT(report, ContainsSubstring("linear  Linear(in_features=4, out_features=5, bias=True)"));
}

TEST_CASE("nodes that came from elsewhere call torch.ops, and numbered submodules are fetched by getattr") {
  const auto g = parseText(R"(graph M {
  weight %w "layers.0.weight" : f32[2,4]
  input %x : tensor
  %linear = aten.linear.default(%x, %w) : tensor
  %softmax = aten.softmax.int(%linear, dim=-1, dtype=torch.float16) : tensor
  %values, %indices = aten.max.dim(%softmax, dim=1) : tensor, tensor
  return %values
})",
                           testOperators());
  REQUIRE(g);
  REQUIRE(*pythonCode(*g) ==
          "def forward(self, x):\n"
          "    w = getattr(self.layers, \"0\").weight\n"
          "    linear = torch.ops.aten.linear.default(x, w);  x = w = None\n"
          "    softmax = torch.ops.aten.softmax.int(linear, -1, torch.float16);  linear = None\n"
          "    values, indices = torch.ops.aten.max.dim(softmax, 1);  softmax = None\n"
          "    return values\n");
}

TEST_CASE("control flow is refused in words") {
  const auto g = parseText(
      "graph M {\n input %c : bool\n input %x : tensor\n %y = prim.If(%c) : tensor { return %x } { return %x }\n "
      "return %y\n}",
      testOperators());
  REQUIRE(g);
  CHECK_THAT(pythonCode(*g).error().message, ContainsSubstring("y is control flow"));
}

TEST_CASE("a write by an operator of Python is a statement, and its result another name of what it changes") {
  auto g = parseText(R"(graph M {
  input %x : tensor
  input %y : tensor
  %sum = aten.add.Tensor(%x, %y) : tensor
  %sum_1 = aten.mul.Tensor(%sum, %y) : tensor
  return %sum_1
})",
                     testOperators());
  REQUIRE(g);
  const auto value = [&](const char* n) { return Argument(g->findValue(n)); };
  g->setOrigin(
      g->findNode("sum_1"),
      std::make_shared<Origin>(Origin{
          "call_function", "sum_1", "<built-in function imul>", "operator.imul", {value("sum"), value("y")}, {}}));
  CHECK_THAT(*pythonCode(*g), ContainsSubstring("    sum *= y;  sum_1 = sum;  sum = y = None\n"));
}
