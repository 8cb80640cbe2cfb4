#include "core/ir/normal_form.h"

#include "core/ir/operators/operator_facts.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("scalar overloads and synonyms have one spelling") {
  CHECK(canonicalOperator("aten.add.Scalar") == "aten.add.Tensor");
  CHECK(canonicalOperator("aten.true_divide.Tensor") == "aten.div.Tensor");
  CHECK(canonicalOperator("aten.__and__.Tensor") == "aten.bitwise_and.Tensor");
  CHECK(canonicalOperator("aten.softmax.int") == "aten.softmax.int");
}

TEST_CASE("in-place operators know their functional form") {
  CHECK(functionalForm("aten.add_.Scalar") == "aten.add.Tensor");
  CHECK(functionalForm("aten.relu_.default") == "aten.relu.default");
  CHECK(functionalForm("aten.__iand__.Tensor") == "aten.bitwise_and.Tensor");
  CHECK_FALSE(functionalForm("aten.copy_.default"));
  CHECK_FALSE(functionalForm("aten.uniform_.default"));
  CHECK_FALSE(functionalForm("aten.relu.default"));
  CHECK_FALSE(functionalForm("aten.__and__.Tensor"));
}

TEST_CASE("parameters that name dimensions, and those that do not matter") {
  CHECK(isDimensionParameter("aten.softmax.int", "dim"));
  CHECK(isDimensionParameter("aten.transpose.int", "dim1"));
  CHECK_FALSE(isDimensionParameter("aten.dropout.default", "p"));
  CHECK(isIrrelevantParameter("aten.layer_norm.default", "cudnn_enable"));
  CHECK_FALSE(isIrrelevantParameter("aten.layer_norm.default", "eps"));
  CHECK(factsOf("aten.mul.Tensor").has(OperatorFact::Commutative));
  CHECK_FALSE(factsOf("aten.sub.Tensor").has(OperatorFact::Commutative));
}
