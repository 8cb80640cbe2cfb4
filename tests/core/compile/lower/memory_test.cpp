// What a GPU reads and writes of memory: which nests store the results of a group. The results are compared with
// LibTorch's, too.

#include <string>

#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/torch/semantics.h"
#include "tests/core/compile/lower/torch_compare.h"
#include "tests/support/graphs.h"

using namespace graft;

namespace {

/// The loops of a group, whose results are LibTorch's. `strides`: of inputs and results; empty: row by row.
std::string loopsOf(const std::string& text, const std::vector<std::vector<int64_t>>& strides = {}) {
  Graph g = test::graphOf(text, test::semantics().operators());
  std::vector<Type> types;
  std::vector<test::Random> random;
  for (const ValueId v : g.inputs()) {
    types.push_back(g.value(v).type);
    test::Random& r = random.emplace_back();
    r.dtype = *types.back().tensorInfo.dtype;
    for (const Dim& d : *types.back().tensorInfo.shape) r.sizes.push_back(d.size);
    if (r.dtype == DType::Int64) {
      r.least = 0;
      r.greatest = 7;
    }
    r.image = r.sizes.size() == 4 && !strides.empty();
  }
  REQUIRE_RESULT(inferAllTypes(g, types));
  CHECK(test::compareWithTorch(g, test::randomInputs(random, 1), {}) == "");
  const auto program = lower::lower(g, strides, test::kGpuOfSmall);
  REQUIRE_RESULT(program);
  CHECK(loops::verify(*program));
  return loops::printProgram(*program);
}

size_t count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a copy of rows is stored by the nest that reduces them") {
  const std::string loss = loopsOf(R"(graph g {
    input %x : f32[8,48]
    input %t : i64[8]
    %c = aten.clone.default(%x)
    %v = aten.view.default(%c, [2, 4, 48])
    %w = aten.view.default(%v, [8, 48])
    %s = aten._log_softmax.default(%w, 1, False)
    %l, %n = aten.nll_loss_forward.default(%s, %t, None, 1, -100)
    return %c, %l, %n
  })");
  INFO(loss);
  CHECK(count(loss, "\nnest") == 2);
  CHECK(count(loss, "c[i0, j0] = x[i0, j0] for j0 < 48") == 1);
  // Rows of which a view counts otherwise
  const std::string viewed = loopsOf(R"(graph g {
    input %x : f32[8,48]
    input %t : i64[8]
    %v = aten.view.default(%x, [2, 4, 48])
    %c = aten.neg.default(%v)
    %s = aten._log_softmax.default(%x, 1, False)
    %l, %n = aten.nll_loss_forward.default(%s, %t, None, 1, -100)
    return %c, %l, %n
  })");
  INFO(viewed);
  CHECK(count(viewed, "\nnest") == 2);
}

TEST_CASE("elements that lie across the rows stay with a nest of their own") {
  const std::string across = loopsOf(R"(graph g {
    input %x : f32[8,48]
    input %y : f32[48,8]
    input %t : i64[8]
    %u = aten.t.default(%y)
    %c = aten.add.Tensor(%x, %u)
    %s = aten._log_softmax.default(%x, 1, False)
    %l, %n = aten.nll_loss_forward.default(%s, %t, None, 1, -100)
    return %c, %l, %n
  })");
  INFO(across);
  CHECK(count(across, "\nnest") == 3);
}

TEST_CASE("what is summed up and is a result is stored by the sums, and read again in place of what it is made of") {
  const std::vector<int64_t> image{14 * 14 * 8, 1, 14 * 8, 8};
  const std::string norm = loopsOf(R"(graph g {
    input %a : bf16[4,8,14,14]
    input %b : bf16[4,8,14,14]
    input %y : bf16[4,8,14,14]
    input %x : bf16[4,8,14,14]
    input %w : f32[8]
    input %m : f32[8]
    input %r : f32[8]
    %s = aten.add.Tensor(%a, %b)
    %t = aten.threshold_backward.default(%s, %y, 0)
    %i, %g, %h = aten.native_batch_norm_backward.default(%t, %x, %w, %m, %r, %m, %r, True, 0.001, [True, True, True])
    return %t, %i, %g, %h
  })",
                                   {image, image, image, image, {1}, {1}, {1}, image, image, {1}, {1}});
  INFO(norm);
  CHECK(count(norm, "\nnest") == 3);  // the parts of the columns, their sums, and the gradient of what the norm reads
  CHECK(count(norm, "for j0 < ") == 1);
  const size_t last = norm.rfind("\nnest");
  CHECK(norm.find("f32(t[", last) != norm.npos);
  CHECK(norm.find("y[", last) == norm.npos);
}

TEST_CASE("a rounded copy stands for what it is a copy of where the model reads the copy alone") {
  const auto lossOf = [](const std::string& reader) {
    return loopsOf(R"(graph g {
      input %x : f32[64,48]
      input %y : f32[64,48]
      %u = aten.mul.Tensor(%x, %y)
      %v = aten.exp.default(%u)
      %c = aten._to_copy.default(%v, dtype=torch.bfloat16)
      %s = aten.sum.dim_IntList(%v, [0], True)
      %d = aten.)" +
                   reader + R"(
      %e = aten.mul.Tensor(%d, %s)
      return %c, %e
    })");
  };
  const std::string wide = lossOf("sigmoid.default(%v)");
  INFO(wide);
  CHECK(wide.find("f32(c[") == wide.npos);
  const std::string rounded = lossOf("_to_copy.default(%c, dtype=torch.float32)");
  INFO(rounded);
  CHECK(rounded.find("f32(c[") != rounded.npos);
}

TEST_CASE("the same elements in two orders of loops are stored by one nest, if memory runs along the same loop") {
  const std::string heads = R"(graph g {
    input %x : bf16[32,24]
    %v = aten.view.default(%x, [4, 8, 3, 8])
    %t = aten.transpose.int(%v, 1, 2)
    %f = aten._to_copy.default(%t, dtype=torch.float32)
    %m = aten.mul.Tensor(%f, 0.5)
    %c = aten.clone.default(%m, memory_format=<torch.contiguous_format>)
    %u = aten._unsafe_view.default(%c, [12, 8, 8])
    %w = aten.transpose.int(%u, 1, 2)
    %o = aten._to_copy.default(%w, dtype=torch.bfloat16)
    return %c, %o
  })";
  const std::vector<int64_t> x{24, 1}, c{192, 64, 8, 1};
  const std::string joined = loopsOf(heads, {x, c, {64, 1, 8}});
  INFO(joined);
  CHECK(count(joined, "\nnest") == 1);
  CHECK(joined.find("o[i0 * 3 + i1, i3, i2] = ") != joined.npos);
  // Where memory runs along other loops, one of the stores would lie across.
  const std::string apart = loopsOf(heads, {x, c, {64, 8, 1}});
  INFO(apart);
  CHECK(count(apart, "\nnest") == 2);
}

TEST_CASE("a result of flattened elements joins the nest that counts them apart, and the other way round") {
  const std::string first = loopsOf(R"(graph g {
    input %x : f32[4,6,8]
    input %y : f32[4,6,8]
    %a = aten.add.Tensor(%x, %y)
    %s = aten.mul.Tensor(%x, %y)
    %b = aten.view.default(%s, [24, 8])
    %e = aten.exp.default(%b)
    return %a, %e
  })");
  INFO(first);
  CHECK(count(first, "\nnest") == 1);
  const std::string second = loopsOf(R"(graph g {
    input %x : f32[24,8]
    %a = aten.exp.default(%x)
    %s = aten.neg.default(%x)
    %b = aten.view.default(%s, [2, 2, 6, 8])
    %e = aten.sin.default(%b)
    return %e, %a
  })");
  INFO(second);
  CHECK(count(second, "\nnest") == 1);
  // Other elements of the same tensor
  const std::string others = loopsOf(R"(graph g {
    input %x : f32[24,8]
    %h = aten.slice.Tensor(%x, 0, 0, 12)
    %a = aten.exp.default(%h)
    %l = aten.slice.Tensor(%x, 0, 12, 24)
    %s = aten.neg.default(%l)
    %b = aten.view.default(%s, [3, 4, 8])
    return %b, %a
  })");
  INFO(others);
  CHECK(count(others, "\nnest") == 2);
}
