#include "core/ir/operator.h"

#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("schemas print back as they were parsed") {
  for (const char* text : {
           "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
           "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
           "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
           "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1, 1]) -> Tensor",
           "prim::Print(...) -> ()",
       }) {
    const auto op = parseSchema(text);
    REQUIRE(op);
    REQUIRE(schemaString(**op) == text);
  }
}

TEST_CASE("a schema says what it writes, aliases and draws") {
  REQUIRE((*parseSchema("aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"))->writes());
  REQUIRE((*parseSchema("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"))->aliases());
  REQUIRE_FALSE((*parseSchema("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"))->writes());
  REQUIRE((*parseSchema("aten::dropout(Tensor input, float p, bool train) -> Tensor"))->random);
  REQUIRE_FALSE((*parseSchema("aten::relu(Tensor self) -> Tensor"))->random);
  REQUIRE((*parseSchema("aten::chunk(Tensor(a -> *) self, int chunks) -> Tensor(a)[]"))->parameters[0].aliasSet == "a");
}

TEST_CASE("a broken schema is refused with its column") {
  for (const char* text : {"aten::relu", "relu(Tensor x) -> Tensor", "aten::relu(Tensor x", "aten::relu(Tensor x) -> ",
                           "aten::relu(Tensor) -> Tensor", "aten::f(Tensor(a x) -> Tensor", "aten::f(int[ x) -> Tensor",
                           "aten::f(int x=) -> Tensor"}) {
    INFO(text);
    const auto op = parseSchema(text);
    REQUIRE_FALSE(op);
    REQUIRE(op.error().position->column > 0);
  }
}

TEST_CASE("names split into namespace, operator and overload") {
  const auto op = *parseSchema("aten::relu(Tensor self) -> Tensor");
  REQUIRE(op->name == "aten.relu.default");
  REQUIRE(op->packetName() == "aten.relu");
  REQUIRE(op->baseName() == "relu");
}
