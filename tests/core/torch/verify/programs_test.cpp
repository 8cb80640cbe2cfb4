// What verification does around a run: inputs that a GPU must not see, the fp64 reference, and weights that a run
// writes.
#include <ATen/ATen.h>

#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"
#include "core/torch/verify/check_inputs.h"
#include "core/torch/verify/index_guard.h"
#include "core/torch/verify/program_set.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/torch_semantics.h"

using namespace graft;
using test::graphOf;
using test::torchSemantics;

namespace {

Graph graph(const std::string& text) { return graphOf(text, torchSemantics().operators()); }

TensorSet set(std::vector<at::Tensor> tensors) { return tensorSet({tensors.begin(), tensors.end()}); }

const char* const lookup = R"(graph g {
 input %x : f32[4,2]
 input %i : i64[3]
 %y = aten.index_select.default(%x, 0, %i)
 return %y
})";

}  // namespace

TEST_CASE("indices out of range are found on the CPU, before a GPU sees them") {
  const Graph g = graph(lookup);
  const TensorSet fine = set({at::ones({4, 2}), at::tensor({0, 3, 1}, at::kLong)});
  const TensorSet wrong = set({at::ones({4, 2}), at::tensor({0, 4, 1}, at::kLong)});
  IndexGuard guard(g, "cuda");
  CHECK_FALSE(guard.refuses(fine, {}));
  CHECK(guard.refuses(wrong, {}));
  CHECK_FALSE(guard.refuses(fine, {}));
  CHECK_FALSE(IndexGuard(g, "cpu").refuses(wrong, {}));  // there the run itself says so
}

TEST_CASE("nearly equal inputs are a unit in the last place apart, or the same in another layout") {
  const at::Tensor image = at::rand({2, 8, 5, 5}) + 1, mask = at::tensor({0, 1, 1, 0}, at::kLong).view({2, 2});
  const TensorSet given = set({image, mask});
  const auto laid = valuesOf(nearlyEqual(given, 0));
  CHECK(laid[0].toTensor().is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(laid[0].toTensor().equal(image));
  const auto near = valuesOf(nearlyEqual(given, 1)), other = valuesOf(nearlyEqual(given, 2));
  const at::Tensor apart = (near[0].toTensor() - image).abs();
  CHECK(apart.max().item<double>() > 0);
  CHECK(apart.max().item<double>() <= 0x1p-22);  // numbers from 1 to 2; rounding may add another unit
  CHECK_FALSE(other[0].toTensor().equal(near[0].toTensor()));
  CHECK(near[1].toTensor().equal(mask));
}

TEST_CASE("a graph without indices is not run twice") {
  const Graph g = graph("graph g {\n input %x : f32[4,2]\n %y = aten.select.int(%x, 0, 9)\n return %y\n}");
  CHECK_FALSE(IndexGuard(g, "cuda").refuses(set({at::ones({4, 2})}), {}));
}

TEST_CASE("the reference computes in fp64, and inputs that it refuses do not end it") {
  const Graph g = graph(lookup);
  Reference reference(g, "cpu", Missing::Refused);
  const auto run = [](const Program& p, const TensorSet& wide) { return runSeeded(p, wide, {}); };
  CHECK_FALSE(reference.run(set({at::ones({4, 2}), at::tensor({0, 4, 1}, at::kLong)}), run));
  const auto out = reference.run(set({at::ones({4, 2}), at::tensor({0, 3, 1}, at::kLong)}), run);
  REQUIRE(out);
  CHECK(valuesOf(*out)[0].toTensor().scalar_type() == at::kDouble);
}

TEST_CASE("each run of a verification begins with the buffers that the file holds") {
  Graph g =
      graph("graph g {\n buffer %w \"w\" : f32[2]\n input %x : f32[2]\n %y = aten.add_.Tensor(%w, %x)\n return %y\n}");
  g.mutableWeight(g.weights()[0]).data = std::make_shared<TensorWeight>(at::zeros({2}));
  auto program = Program::build(g);
  REQUIRE_RESULT(program);
  for (int i = 0; i < 2; ++i) {
    const auto out = runSeeded(*program, set({at::ones({2})}), {});
    REQUIRE_RESULT(out);
    CHECK(at::equal(valuesOf(*out)[0].toTensor(), at::ones({2})));
  }
}
