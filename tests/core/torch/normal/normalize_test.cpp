// Steps into the normal form, on graphs as the importers leave them.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/normal/imported_graph.h"
#include "core/torch/semantics.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

namespace {

const OperatorSet& operators() {
  static const std::unique_ptr<Semantics> semantics = makeTorchSemantics();
  return semantics->operators();
}

std::string normalised(const std::string& body) {
  Graph g = graphOf("graph g {\n input %x : f32[2,3]\n" + body + "}", operators());
  REQUIRE(normalizeImported(g, operators()));
  return toText(g);
}

bool holds(const std::string& text, const char* op) { return text.find(op) != text.npos; }

}  // namespace

TEST_CASE("an in-place operator on fresh memory becomes its functional form") {
  const std::string text = normalised(" %a = aten.neg.default(%x)\n %b = aten.relu_.default(%a)\n return %b\n");
  CHECK(holds(text, "aten.relu.default"));
  CHECK_FALSE(holds(text, "aten.relu_.default"));
}

TEST_CASE("a comparison in place keeps the dtype, so it has no functional form") {
  const std::string text = normalised(" %a = aten.neg.default(%x)\n %b = aten.eq_.Scalar(%a, 1.0)\n return %b\n");
  CHECK(holds(text, "aten.eq_.Scalar"));
}

TEST_CASE("what may be the argument itself is no fresh memory") {
  const std::string text = normalised(" %a = aten.atleast_1d.default(%x)\n %b = aten.relu_.default(%a)\n return %b\n");
  CHECK(holds(text, "aten.relu_.default"));
}

TEST_CASE("a number that is computed by tensors of numbers alone is that number") {
  const std::string text = normalised(
      " %n = prim.NumToTensor.Scalar(9)\n %p = aten.pow.Tensor_Scalar(%n, 0.5)\n"
      " %t = aten.to.dtype(%p, torch.int64, False, False, None)\n %i = aten.Int.Tensor(%t)\n"
      " %a = aten.expand.default(%x, [%i, 2, 3], implicit=False)\n return %a\n");
  CHECK(holds(text, "size=[3, 2, 3]"));
  CHECK_FALSE(holds(text, "aten.Int.Tensor"));
  CHECK_FALSE(holds(text, "NumToTensor"));
}

TEST_CASE("a number that is written to stays in its tensor") {
  for (const char* written : {"%t", "%u"}) {
    const std::string text = normalised(std::string(" %n = prim.NumToTensor.Scalar(9)\n %t = aten.neg.default(%n)\n"
                                                    " %u = aten.unsqueeze.default(%t, 0)\n %w = aten.add_.Scalar(") +
                                        written +
                                        ", 1)\n %i = aten.Int.Tensor(%t)\n"
                                        " %a = aten.expand.default(%x, [%i, 2, 3], implicit=False)\n return %a\n");
    INFO(text);
    CHECK(holds(text, "aten.Int.Tensor"));
  }
}

TEST_CASE("a number that depends on an input, is random or cannot be computed stays") {
  for (const char* made :
       {"aten.sum.default(%x)", "aten.rand.default([])", "aten.to.device(%n, device=<cuda:7>, dtype=torch.int64)"}) {
    INFO(made);
    CHECK(holds(
        normalised(
            std::string(" %n = prim.NumToTensor.Scalar(9)\n %t = ") + made +
            "\n %i = aten.Int.Tensor(%t)\n %a = aten.expand.default(%x, [%i, 2, 3], implicit=False)\n return %a\n"),
        "aten.Int.Tensor"));
  }
}

TEST_CASE("a mask of zeros before a softmax goes, and each operand is looked at once, however many ways lead there") {
  CHECK_FALSE(holds(normalised(" %z = aten.zeros_like.default(%x) : f32[2,3]\n"
                               " %s = aten.add.Tensor(%x, %z, alpha=1) : f32[2,3]\n"
                               " %y = aten.softmax.int(%s, -1, None) : f32[2,3]\n return %y\n"),
                    "aten.add.Tensor"));
  std::string text = " %v0 = aten.relu.default(%x) : f32[2,3]\n";
  for (int i = 1; i <= 40; ++i) text += fmt::format(" %v{0} = aten.mul.Tensor(%v{1}, %v{1}) : f32[2,3]\n", i, i - 1);
  text += " %s = aten.add.Tensor(%v40, %x, alpha=1) : f32[2,3]\n %y = aten.softmax.int(%s, -1, None) : f32[2,3]\n";
  CHECK(holds(normalised(text + " return %y\n"), "aten.add.Tensor"));
}
