// A node's arguments as the values that its operator takes.
#include <ATen/core/dispatch/Dispatcher.h>

#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#include "tests/support/graphs.h"

using namespace graft;

namespace {

/// Argument `i` of a node that calls the operator with None alone.
Result<c10::IValue> noneAt(size_t i, const std::string& name) {
  static const auto semantics = makeTorchSemantics();
  Node n;
  n.op = semantics->operators().find(name);
  REQUIRE(n.op);
  n.args.assign(n.op->parameters.size(), Argument::none());
  return argumentValue(n, i,
                       c10::Dispatcher::singleton()
                           .findSchemaOrThrow(torchName(name).name.c_str(), torchName(name).overload_name.c_str())
                           .schema());
}

}  // namespace

TEST_CASE("None is an undefined tensor where the operator takes tensors that are not there, and nowhere else") {
  const std::string attention = "aten._scaled_dot_product_cudnn_attention_backward.default";
  const auto mask = noneAt(8, attention);
  REQUIRE_RESULT(mask);
  CHECK((mask->isTensor() && !mask->toTensor().defined()));
  const auto scale = noneAt(15, attention);  // an optional number
  REQUIRE_RESULT(scale);
  CHECK(scale->isNone());
  CHECK_FALSE(noneAt(11, attention));  // an integer

  const auto other = noneAt(1, "aten.mul.Tensor");
  REQUIRE_FALSE(other);
  CHECK(other.error().message == "None where tensor is wanted");
}

TEST_CASE("the operators that take tensors that are not there say so in their parameters") {
  static const auto semantics = makeTorchSemantics();
  const OperatorRef op = semantics->operators().find("aten._scaled_dot_product_cudnn_attention_backward.default");
  REQUIRE(op);
  CHECK(op->parameters[0].type.isTensor());  // the gradient itself
  CHECK(op->parameters[8].type.kind == Type::Kind::Optional);
  CHECK(semantics->operators().find("aten.mul.Tensor")->parameters[1].type.isTensor());
}
