#include "core/ir/declaration_order.h"

#include "core/ir/verify.h"
#include "core/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

using namespace graft;

TEST_CASE("modules and weights are declared in the order of their first use") {
  auto g = parseText(R"(graph g {
  module m0 "b" my.B
  module m1 "b.drop" my.Dropout in m0
  module m2 "b.last" my.Dropout in m0
  module m3 "idle" my.Dropout
  module m4 "a" my.A
  module m5 "a.in" my.In in m4
  module m6 "end" my.Dropout
  constant %unused "unused" : f32[]
  weight %second "b.weight" : f32[4]
  weight %first "a.weight" : f32[4]
  input %x : f32[4]
  %one = aten.add.Tensor(%x, %first) : f32[4] @m5
  %two = aten.add.Tensor(%one, %second) : f32[4] @m0
  return %two
}
)",
                     testOperators());
  INFO((g ? "" : g.error().format()));
  REQUIRE(g);
  orderDeclarations(*g);
  CHECK(verify(*g));
  const std::string sorted = R"(graph g {
  module m0 "idle" my.Dropout
  module m1 "a" my.A
  module m2 "a.in" my.In in m1
  module m3 "b" my.B
  module m4 "b.drop" my.Dropout in m3
  module m5 "b.last" my.Dropout in m3
  module m6 "end" my.Dropout
  weight %first "a.weight" : f32[4]
  weight %second "b.weight" : f32[4]
  constant %unused "unused" : f32[]
  input %x : f32[4]
  %one = aten.add.Tensor(%x, %first, alpha=1) : f32[4] @m2
  %two = aten.add.Tensor(%one, %second, alpha=1) : f32[4] @m3
  return %two
}
)";
  CHECK(toText(*g) == sorted);
  orderDeclarations(*g);
  CHECK(toText(*g) == sorted);
}
