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
