// What verification does around a run: inputs that a GPU must not see, the fp64 reference, and weights that a run
// writes.
#include <ATen/ATen.h>

#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"
#include "core/torch/verification.h"
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

TEST_CASE("of a graph with indices only what they need runs on the CPU, and of weights alone nothing") {
  // `select` fails on every input: so a graph that runs as a whole refuses all.
  const Graph part = graph(R"(graph g {
 input %x : f32[4,2]
 input %i : i64[3]
 %y = aten.index_select.default(%x, 0, %i)
 %z = aten.select.int(%y, 0, 9)
 return %z
})");
  const TensorSet fine = set({at::ones({4, 2}), at::tensor({0, 3, 1}, at::kLong)});
  IndexGuard guard(part, "cuda");
  CHECK_FALSE(guard.refuses(fine, {}));
  CHECK(guard.refuses(set({at::ones({4, 2}), at::tensor({0, 4, 1}, at::kLong)}), {}));
  // What a node writes may be what a lookup reads.
  const Graph writing = graph(R"(graph g {
 input %x : f32[4,2]
 input %i : i64[3]
 %j = aten.add_.Scalar(%i, 1)
 %y = aten.index_select.default(%x, 0, %i)
 return %y
})");
  CHECK(IndexGuard(writing, "cuda").refuses(fine, {}));
  Graph fixed = graph(R"(graph g {
 weight %t "t" : f32[4,2]
 buffer %i "i" : i64[3]
 input %x : f32[2]
 %y = aten.index_select.default(%t, 0, %i)
 %z = aten.select.int(%x, 0, 9)
 return %y, %z
})");
  CHECK_FALSE(IndexGuard(fixed, "cuda").refuses(set({at::ones({2})}), {}));
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

TEST_CASE("what a model leaves in buffers and inputs follows its outputs, by name") {
  const auto steps = [](const char* factor) {
    Graph g = graph(std::string("graph g {\n buffer %w \"mean\" : f32[2]\n input %x : f32[2]\n"
                                " %m = aten.mul_.Scalar(%w, ") +
                    factor + ")\n %y = aten.add_.Scalar(%x, 1)\n %z = aten.neg.default(%y)\n return %z\n}");
    g.mutableWeight(g.weights()[0]).data = std::make_shared<TensorWeight>(at::ones({2}));
    return g;
  };
  const Graph first = steps("2"), second = steps("3");
  const auto a = Program::build(first), b = Program::build(second);
  REQUIRE_RESULT(a);
  REQUIRE_RESULT(b);
  const TensorSet inputs = set({at::zeros({2})});
  const WrittenState state({&*a, &*b});
  for (int k = 0; k < 2; ++k) {  // neither inputs nor buffers are those of the run before
    const auto x = state.run(*a, inputs, {}), y = state.run(*b, inputs, {});
    REQUIRE_RESULT(x);
    REQUIRE_RESULT(y);
    const auto differences = state.named(compareTensors(*x, *y), *x);
    REQUIRE(differences.size() == 3);
    CHECK(titleOf(differences[0]) == "output 0");
    CHECK(differences[0].passed);
    CHECK(titleOf(differences[1]) == "buffer mean");
    CHECK(differences[1].maxAbs == 1);
    CHECK_FALSE(differences[1].passed);
    CHECK(titleOf(differences[2]) == "input 0");
    CHECK(differences[2].passed);
  }
  const auto verified = verifyRewrite(first, second, inputs, {});
  REQUIRE_RESULT(verified);
  CHECK_FALSE(verified->passed);
  CHECK_THAT(verified->why, ContainsSubstring("buffer mean"));
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
