// Errors in modules that torch.jit.freeze has made: their operators point to methods that freezing has freed.
#include "kernels/runner/frozen_method.h"

#include <ATen/Functions.h>
#include <torch/csrc/jit/api/module.h>

#include <string>

#include "tests/support/catch.h"

using namespace graft::ops;

namespace {

/// A module whose forward calls another method of its own, which asks for 7 × 7 elements.
torch::jit::Module square() {
  torch::jit::Module m("Square");
  m.register_attribute("training", c10::BoolType::get(), false);
  m.register_parameter("scale", at::full({}, 2.0), false);
  m.define(R"(
def asSquare(self, x):
    if bool(x.sum() > 1000):
        x = x - self.scale
    return x.view([7, 7]) * self.scale
def forward(self, x):
    return self.asSquare(x) + 1
)");
  return m;
}

}  // namespace

TEST_CASE("a module that was not frozen runs itself") { CHECK_FALSE(executorOfFrozen(square().get_method("forward"))); }

TEST_CASE("a frozen module's copy computes the same, and its errors are errors") {
  const torch::jit::Module frozen = torch::jit::freeze(square());
  const torch::jit::Method method = frozen.get_method("forward");
  const auto executor = executorOfFrozen(method);
  REQUIRE(executor);
  for (int call = 0; call < 4; ++call) {
    const at::Tensor x = at::rand({49});
    CHECK(at::equal(runExecutor(*executor, frozen._ivalue(), {x}).toTensor(), x.view({7, 7}) * 2.0 + 1));
    CHECK_THROWS_WITH(runExecutor(*executor, frozen._ivalue(), {at::rand({9})}),
                      ContainsSubstring("shape '[7, 7]' is invalid for input of size 9"));
  }
}

TEST_CASE("a frozen module that called no method runs itself") {
  torch::jit::Module m("Plain");
  m.register_attribute("training", c10::BoolType::get(), false);
  m.define("def forward(self, x):\n    return x + 1\n");
  CHECK_FALSE(executorOfFrozen(torch::jit::freeze(m).get_method("forward")));
}
