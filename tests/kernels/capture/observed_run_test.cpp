// What an Observer records of a run, tested on the CPU: operators go through the same dispatcher there.
#include "kernels/capture/observed_run.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tests/support/catch.h"

using namespace graft;
using Numbers = std::vector<uint32_t>;

namespace {

template <class F>
ObservedRun observe(const F& run, size_t* kernels = nullptr) {
  size_t none = 0;
  const size_t& count = kernels ? *kernels : none;
  Observer observer(c10::kCPU, [&] { return count; });
  observer.start();
  run();
  observer.stop();
  return observer.run();
}

}  // namespace

TEST_CASE("operators are recorded with what they read and write, without the operators that they call") {
  const at::Tensor x = at::randn({3, 4}), w = at::randn({5, 4});
  const ObservedRun run = observe([&] {
    const at::Tensor y = at::linear(x, w);  // calls at::matmul and others
    at::relu(y);
  });
  REQUIRE(run.names == std::vector<std::string>{"aten::linear", "aten::relu"});
  CHECK(run.steps[0].reads == Numbers{0, 1});
  CHECK(run.steps[0].writes == Numbers{2});
  CHECK(run.steps[1].reads == Numbers{2});
  CHECK(run.steps[1].writes == Numbers{3});
}

TEST_CASE("views share memory and are idle") {
  const at::Tensor x = at::randn({3, 4});
  const ObservedRun run = observe([&] {
    const at::Tensor v = x.t();
    const auto parts = at::chunk(v, 2);
    at::neg(parts[1]);
  });
  REQUIRE(run.steps.size() == 3);
  CHECK(run.steps[0].idle());
  CHECK(run.steps[1].idle());
  CHECK(run.steps[2].reads == Numbers{0});
  CHECK(run.steps[2].writes == Numbers{1});
}

TEST_CASE("writes in place, into given outputs, and into lists") {
  at::Tensor x = at::randn({4}), y = at::randn({4}), z = at::randn({4});
  const ObservedRun run = observe([&] {
    x.select(0, 1).add_(1);
    at::add_out(y, x, z);
    at::_foreach_mul_({x, z}, 2.0);
  });
  REQUIRE(run.names.size() == 4);
  CHECK(run.names[1].starts_with("aten::add_"));
  CHECK(run.steps[1].reads.empty());
  CHECK(run.steps[1].writes == Numbers{0});
  CHECK(run.steps[2].reads == Numbers{0, 1});
  CHECK(run.steps[2].writes == Numbers{2});
  CHECK(run.steps[3].writes == Numbers{0, 1});
}

TEST_CASE("a reused address counts as new memory") {
  const at::Tensor x = at::randn({4});
  const ObservedRun run = observe([&] {
    for (int i = 0; i < 20; ++i) at::neg(x);  // each frees its memory at once
  });
  for (uint32_t i = 0; i < 20; ++i) CHECK(run.steps[i].writes == Numbers{i + 1});
}

TEST_CASE("boxed calls take their own arguments only from the stack") {
  const at::Tensor x = at::randn({4}), y = at::randn({4}), other = at::randn({4});
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  const ObservedRun run = observe([&] {
    torch::jit::Stack stack{other, x, y, 1};
    add.callBoxed(&stack);
    REQUIRE(stack.size() == 2);
  });
  REQUIRE(run.steps.size() == 1);
  CHECK(run.names[0] == "aten::add.Tensor");
  CHECK(run.steps[0].reads == Numbers{0, 1});
  CHECK(run.steps[0].writes == Numbers{2});
}

TEST_CASE("running statistics are written while training") {
  const at::Tensor x = at::randn({2, 3}), mean = at::zeros({3}), variance = at::ones({3});
  for (const bool training : {true, false}) {
    const ObservedRun run = observe([&] { at::batch_norm(x, {}, {}, mean, variance, training, 0.1, 1e-5, false); });
    REQUIRE(run.steps.size() == 1);
    CHECK(run.steps[0].writes == (training ? Numbers{1, 2, 3} : Numbers{3}));
  }
}

TEST_CASE("memory on other devices is ignored") {
  const at::Tensor x = at::randn({4});
  Observer observer(c10::kCUDA, [] { return 0; });
  observer.start();
  at::neg(x).add_(1);
  observer.stop();
  for (const RunStep& s : observer.run().steps) CHECK(s.idle());
}

TEST_CASE("operators that fail are recorded, and later ones as usual") {
  const at::Tensor x = at::randn({4}), y = at::randn({3});
  const ObservedRun run = observe([&] {
    CHECK_THROWS(at::add(x, y));
    at::neg(x);
  });
  REQUIRE(run.steps.size() == 2);
  CHECK(run.names[1] == "aten::neg");
}

TEST_CASE("an operator's kernels are those launched while it runs") {
  size_t kernels = 7;
  class Counting : public Observer {
   public:
    explicit Counting(size_t& k) : Observer(c10::kCPU, [&k] { return k; }), k_(k) {}
    void onOperatorBegin(size_t) override { k_ += 3; }
    size_t& k_;
  } observer(kernels);
  observer.start();
  at::randn({4}).t();
  observer.stop();
  REQUIRE(observer.run().steps.size() == 2);
  CHECK(observer.run().steps[0].kernels == 3);
  CHECK(observer.run().kernelsBetweenOperators == 0);
}

TEST_CASE("kernels that no operator launches are counted separately") {
  size_t kernels = 2;
  const at::Tensor x = at::randn({4});
  const ObservedRun run = observe(
      [&] {
        kernels += 1;
        at::neg(x);
        kernels += 3;
        at::neg(x);
        kernels += 5;
      },
      &kernels);
  CHECK(run.steps[0].kernels == 0);
  CHECK(run.kernelsBetweenOperators == 9);
}
