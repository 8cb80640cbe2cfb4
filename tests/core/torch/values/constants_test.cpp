// What nodes of weights alone compute beforehand.
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("a half that several nodes compute beforehand is rounded once") {
  const auto semantics = makeTorchSemantics();
  Graph g;
  const auto options = at::TensorOptions(at::kHalf);
  const auto weight = [&](const char* name, at::Tensor t) {
    const Type type = typeOfValue(t);
    return g.addWeight(name, type, std::make_shared<TensorWeight>(std::move(t)));
  };
  const at::Tensor w = at::randn({64, 16}, options), gamma = at::rand({64}, options).add(0.5);
  const at::Tensor variance = at::rand({64}, options).add(0.1);
  ValueId v = weight("variance", variance);
  const auto then = [&](const char* op, std::vector<Argument> args) {
    const NodeId node = g.append(g.root(), semantics->operators().find(op), std::move(args));
    auto made = semantics->evaluate(g, node);
    REQUIRE(made);
    const Semantics::Constant& c = made->front();
    CHECK(c.type.tensorInfo.dtype == DType::Float16);
    return g.addWeight("made", c.type, c.data);
  };
  v = then("aten.add.Scalar", {Argument(v), Argument(1e-5), Argument(int64_t{1})});
  v = then("aten.rsqrt.default", {Argument(v)});
  v = then("aten.mul.Tensor", {Argument(weight("gamma", gamma)), Argument(v)});
  v = then("aten.view.default", {Argument(v), Argument::ints({-1, 1})});
  v = then("aten.mul.Tensor", {Argument(weight("w", w)), Argument(v)});
  const at::Tensor scale = gamma.to(at::kFloat).mul(variance.to(at::kFloat).add(1e-5).rsqrt());
  CHECK(at::equal(weightTensor(g.value(v)), w.to(at::kFloat).mul(scale.view({-1, 1})).to(at::kHalf)));
  // What jumps looks at what was rounded.
  const ValueId steps = then("aten.round.default", {Argument(v)});
  CHECK(at::equal(weightTensor(g.value(steps)), weightTensor(g.value(v)).round()));
  // What asks for a dtype gets it, of what was rounded.
  const NodeId wide = g.append(g.root(), semantics->operators().find("aten.to.dtype"),
                               {Argument(v), Argument(DType::Float32), Argument(false), Argument(false), Argument()});
  auto made = semantics->evaluate(g, wide);
  REQUIRE(made);
  CHECK(at::equal(dynamic_cast<const TensorWeight&>(*made->front().data).tensor,
                  weightTensor(g.value(v)).to(at::kFloat)));
}
