
#include <ATen/ops/ones.h>

#include <cstdlib>
#include <filesystem>

#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/values/weight.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_semantics.h"

using namespace graft;
using test::graphOf;

namespace {

/// Exports, runs the file in plain Python with the same inputs, and compares with our own run.
void requireSameInPython(const Graph& g, std::vector<std::string> specs = {}) {
  test::TempDir dir;
  auto inputs = makeInputs(g, specs, 3);
  REQUIRE(inputs);
  auto program = Program::build(g);
  REQUIRE_RESULT(program);
  auto expected = program->run(*inputs);
  REQUIRE_RESULT(expected);
  const Status written = exportModel(g, dir / "m.pt");
  REQUIRE_RESULT(written);
  REQUIRE(saveTensors(*inputs, dir / "in.pt"));
  test::writeFile(dir / "run.py", R"(
import sys, torch
d = sys.argv[1]
m = torch.jit.load(d + "/m.pt")
x = torch.load(d + "/in.pt", weights_only=True)
x = x if isinstance(x, tuple) else (x,)
y = m(*x)
torch.save(y, d + "/out.pt")
again = torch.jit.freeze(m.eval())
again(*x)
)");
  const std::string command =
      GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "run.py").string() + " " + dir.path().string();
  REQUIRE(std::system(command.c_str()) == 0);
  auto actual = loadTensors(dir / "out.pt");
  REQUIRE_RESULT(actual);
  for (const Difference& d : compareTensors(*expected, *actual)) {
    INFO(d.name << " " << d.type << ": " << d.why);
    CHECK(d.passed);
  }
}

}  // namespace

TEST_CASE("an exported graph runs in plain Python: numbers for tensors, lists, optional arguments") {
  requireSameInPython(graphOf(R"(graph my.pkg.Net {
    module m0 "blocks.0" my.pkg.Block
    input %x : f32[2,6]
    input %class : f32[2,6]
    %a = aten.add.Tensor(%x, 1, alpha=2)
    %b = aten.mul.Tensor(%a, 0.125) @m0
    %s = aten.softmax.int(%b, -1, torch.float64)
    %n = aten.size.int(%x, 1)
    %d = aten.div.Tensor(%s, %n)
    %parts = aten.chunk.default(%d, 3, dim=1)
    %p0 = prim.getitem(%parts, 0)
    %p2 = prim.getitem(%parts, -1)
    %values, %indices = aten.max.dim(%p0, dim=1)
    %cat = aten.cat.default([%p2, %p0], dim=1)
    %norm = aten.layer_norm.default(%class, [6], eps=1e-6)
    return %cat, %values, [%indices, %indices], %norm
  })"));
}

TEST_CASE("truth values that fill a tensor of a given dtype are exported as numbers") {
  requireSameInPython(graphOf(R"(graph net {
    input %x : f32[2,3]
    %mask = aten.full.default([2, 3], True, torch.bool)
    %ones = aten.full.default([3], True, torch.float32)
    %y = aten.where.self(%mask, %x, %ones)
    return %y
  }
)"));
}

TEST_CASE("control flow is exported as blocks") {
  requireSameInPython(graphOf(R"(graph Net {
    input %x : f32[3]
    input %n : int
    %loop, %last = prim.Loop(%n, True, %x, 0) : tensor, int {
      %i : int; %v : tensor; %k : int;
      %w = aten.add.Tensor(%v, %i) : tensor
      return True, %w, %i
    }
    %c = aten.size.int(%x, 0)
    %if = prim.If(%c) : tensor {
      %r = aten.relu.default(%loop)
      return %r
    } {
      return %loop
    }
    return %if
  })"));
}

TEST_CASE("the arguments of a written model keep their names and defaults") {
  // %n has the name of a module whose weight the code reads.
  const std::string text = R"(graph Called {
  weight %n_weight "n.weight" : f32[2]
  input %x : f32[2]
  input %n : float
  input %flag : bool
  input %sizes : list[int]
  input %mask : optional[tensor]
  arguments ["x", "n", "flag", "sizes", "mask"] tree("builtins.tuple", "null", tree("builtins.tuple", "null", %x, %n=2.5, %flag=True, %sizes=[2], %mask=None), tree("builtins.dict", "[]"))
  %a = aten.mul.Tensor(%x, %n) : f32[2]
  %b = aten.add.Tensor(%a, %n_weight) : f32[2]
  %c = aten.view.default(%b, %sizes) : f32[2]
  return %c
}
)";
  Graph g = graphOf(text);
  g.mutableWeight(g.weights()[0]).data = std::make_shared<TensorWeight>(at::ones({2}));
  test::TempDir dir;
  REQUIRE_RESULT(exportModel(g, dir / "m.pt"));
  test::writeFile(dir / "run.py", R"(
import sys, torch
m = torch.jit.load(sys.argv[1] + "/m.pt")
declared = [(a.name, a.default_value) for a in m.forward.schema.arguments[1:]]
assert declared == [("x", None), ("n", 2.5), ("flag", True), ("sizes", [2]), ("mask", None)], declared
x, w = torch.ones(2), m.n.weight
assert torch.equal(m(x), x * 2.5 + w) and torch.equal(m(x=x, n=3.0, mask=x), x * 3 + w)
)");
  const std::string command =
      GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "run.py").string() + " " + dir.path().string();
  REQUIRE(std::system(command.c_str()) == 0);
  auto again = importModel(dir / "m.pt", test::torchSemantics());
  REQUIRE_RESULT(again);
  CHECK(callingText(again->graph) == callingText(g));
  CHECK(again->graph.value(again->graph.inputs()[1]).name == "n");
}

TEST_CASE("an export to a place that cannot be written leaves nothing behind") {
  const Graph g = graphOf("graph g {\n input %x : f32[2]\n %y = aten.neg.default(%x)\n return %y\n}");
  test::TempDir dir;
  const Status s = exportModel(g, dir / "missing/out.pt");
  REQUIRE_FALSE(s);
  CHECK(s.error().kind == ErrorKind::BadInput);
  test::writeFile(dir / "kept.pt", "old");
  const Graph bad = graphOf("graph g {\n input %x : f32[2]\n %y = my.op.rare(%x) : tensor\n return %y\n}");
  const Status refused = exportModel(bad, dir / "kept.pt");
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("my.op.rare"));
  CHECK(test::readFile(dir / "kept.pt") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a value that may be None is unwrapped where a tensor is wanted") {
  requireSameInPython(graphOf(R"(graph Net {
    input %x : f32[3]
    input %c : bool
    %if = prim.If(%c) : optional[tensor] {
      %r = aten.relu.default(%x)
      return %r
    } {
      return None
    }
    %sum = aten.add.Tensor(%x, %if)
    return %sum
  })"),
                      {"f32[3]:randn", "b8[]:ones"});
}
