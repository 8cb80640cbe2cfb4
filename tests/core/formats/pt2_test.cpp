// torch.export programs beyond straight tensors: ranges, branches, loops, writes, numbers, and the dialect that
// run_decompositions makes. Each is read, run, written and read again, and PyTorch reads what was written.
#include <algorithm>
#include <cstdlib>

#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "tests/core/formats/fixtures.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using namespace graft::test;

namespace {

void checkRun(const Graph& g, const std::string& name, double tolerance) {
  const auto inputs = loadTensors(fixture(name + "_inputs.pt"));
  const auto expected = loadTensors(fixture(name + "_expected.pt"));
  REQUIRE(inputs);
  REQUIRE(expected);
  auto program = Program::build(g);
  REQUIRE_RESULT(program);
  const auto outputs = program->run(*inputs);
  REQUIRE_RESULT(outputs);
  const auto differences = compareTensors(*expected, *outputs);
  CHECK_FALSE(differences.empty());
  for (const Difference& d : differences) {
    INFO(d.name << " " << d.type << ": " << d.why << " " << d.maxAbs);
    CHECK(d.maxAbs <= tolerance);
  }
}

}  // namespace

TEST_CASE("the ranges of symbols are kept, and written again") {
  const TempDir dir;
  const Graph g = imported("net.pt2").graph;
  const TensorInfo& info = g.value(g.inputs()[0]).type.tensorInfo;
  for (size_t i : {0, 1}) {
    const Symbol* s = g.findSymbol((*info.shape)[i].symbol);
    REQUIRE(s);
    CHECK(s->max == 64);
  }
  for (const char* out : {"again.pt2", "again.pt"}) {
    const std::string path = (dir / out).string();
    const Status written = exportModel(g, path);
    REQUIRE_RESULT(written);
    const auto again = importModel(path, torchSemantics());
    REQUIRE(again);
    CHECK(toText(again->graph) == toText(g));
  }
}

TEST_CASE("branches, loops, writes and numbers are read from both dialects, and compute what PyTorch computes") {
  for (const char* name : {"branches", "turns", "search", "counts", "numbers"})
    for (const char* dialect : {"", "_core"}) {
      const std::string file = std::string(name) + dialect + ".pt2";
      INFO(file);
      checkRun(imported(file).graph, name, 1e-6);
    }
  CHECK(count(imported("branches.pt2").graph, "prim.If") == 1);
  CHECK(count(imported("turns.pt2").graph, "prim.Loop") == 1);
}

TEST_CASE("what decomposition takes apart is put together again") {
  const auto has = [](const Graph& g, const char* op, size_t times) {
    INFO(op);
    CHECK(count(g, op) == times);
  };
  const Graph encoder = imported("encoder_core.pt2").graph;
  INFO(toText(encoder, {.sources = false}));
  has(encoder, "aten.linear.default", 6);
  has(encoder, "aten.matmul.default", 2);
  has(encoder, "aten.softmax.int", 1);
  has(encoder, "aten.scaled_dot_product_attention.default", 1);
  has(encoder, "aten.silu.default", 1);
  has(encoder, "aten.hardswish.default", 1);
  for (const char* gone : {"aten.addmm.default", "aten.mm.default", "aten.bmm.default", "aten.clone.default",
                           "aten.permute.default", "aten.native_layer_norm.default", "aten._softmax.default"})
    has(encoder, gone, 0);
  checkRun(encoder, "encoder", 1e-5);
  const Graph vision = imported("vision_core.pt2").graph;
  has(vision, "aten.conv2d.default", 1);
  has(vision, "aten.batch_norm.default", 1);
  has(vision, "aten.max_pool2d.default", 1);
  checkRun(vision, "vision", 1e-5);
}

TEST_CASE("torch.export.load reads branches, loops, writes and numbers that were written again") {
  const TempDir dir;
  for (const char* name : {"branches", "turns", "search", "counts", "numbers"})
    for (const char* dialect : {"", "_core"}) {
      const std::string file = std::string(name) + dialect + ".pt2";
      INFO(file);
      const Graph g = imported(file).graph;
      const std::string path = (dir / file).string();
      const Status written = exportModel(g, path);
      REQUIRE_RESULT(written);
      const auto again = importModel(path, torchSemantics());
      REQUIRE_RESULT(again);
      // A condition that is computed from what is computed: the names of one in a turn may move on by one.
      if (std::string_view(name) == "search")
        CHECK(again->graph.nodeCount() == g.nodeCount());
      else
        CHECK(toText(again->graph) == toText(g));
    }
  auto own = parseText(R"(graph Own {
    symbol s0 [2, 64]
    input %x : f32[s0,4]
    input %times : int
    %half = aten.floordiv.int(%times, 2) : int
    %mul = aten.mul.Tensor(%x, %half) : f32[s0,4]
    return %mul
  })",
                       torchSemantics().operators());
  REQUIRE_RESULT(own);
  const Status written = exportModel(*own, (dir / "own.pt2").string());
  REQUIRE_RESULT(written);
  writeFile(dir / "load.py", R"(
import pathlib, sys, torch
folder, fixtures = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
for path in sorted(folder.glob("*.pt2")):
    program = torch.export.load(path)
    if path.stem == "own":
        assert (2, 64) in [(r.lower, r.upper) for r in program.range_constraints.values()], program.range_constraints
        x = torch.arange(8.0).view(2, 4)
        torch.testing.assert_close(program.module()(x, 6), x * 3)
        continue
    name = path.stem.removesuffix("_core")
    inputs, expected = (torch.load(fixtures / f"{name}_{what}.pt") for what in ("inputs", "expected"))
    module = program.module()
    constants = (2, 1.5, True) if name == "numbers" else ()  # a program is called as it was exported
    torch.testing.assert_close(module(*inputs, *constants), expected[0], rtol=0, atol=0, msg=lambda m: f"{path.name}: {m}")
    if name == "counts":
        assert module.state_dict()["n"].tolist() == [1.0] * 4, module.state_dict()
        torch.testing.assert_close(inputs[0] + 1, expected[0])
)");
  const std::string command = GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "load.py").string() + " " +
                              dir.path().string() + " " + fixture("");
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("sizes, turns of a known number and fixed inputs are written as torch.export says them") {
  const TempDir dir;
  const auto write = [&](const char* name, std::string_view text, const ExportOptions& options = {}) {
    const Graph g = graphOf(text, torchSemantics().operators());
    const Status written = exportModel(g, (dir / name).string(), options);
    REQUIRE_RESULT(written);
    const auto again = importModel((dir / name).string(), torchSemantics());
    REQUIRE_RESULT(again);
  };
  // As Swin pads its input: Python's remainder, and the larger and the smaller of two.
  write("sizes.pt2", R"(graph Sizes {
    symbol s0 [2, 64]
    input %x : f32[s0,4]
    %size = aten.size.int(%x, 0) : int
    %over = aten.remainder.int(%size, 8) : int
    %left = aten.sub.int(8, %over) : int
    %missing = aten.remainder.int(%left, 8) : int
    %most = prim.max.int(%missing, 2) : int
    %least = prim.min.int(%most, 5) : int
    %pad = aten.pad.default(%x, [0, 0, 0, %least], "constant", None) : f32[s0 + Min(Max(Mod(8 - Mod(s0, 8), 8), 2), 5),4]
    return %pad
  })");
  write("turns.pt2", R"(graph Turns {
    input %x : f32[2,4]
    %y, %last = prim.Loop(3, True, %x, 0) : f32[2,4], int {
      %i : int; %a : f32[2,4]; %before : int;
      %b = aten.add.Tensor(%a, %i) : f32[2,4]
      %c = aten.mul.Tensor(%b, %before) : f32[2,4]
      return True, %c, %i
    }
    %z = aten.add.Tensor(%y, %last) : f32[2,4]
    return %z
  })");
  const Graph asked =
      graphOf("graph g {\n input %flag : bool\n input %x : f32[2]\n input %more : float\n return %x\n}");
  const auto inputs = makeInputs(asked, {}, 1);
  REQUIRE_RESULT(inputs);
  write("fixed.pt2", R"(graph Fixed {
    input %flag : bool
    input %x : f32[2]
    input %more : float
    %y = prim.If(%flag) : f32[2] {
      %sum = aten.add.Tensor(%x, %more) : f32[2]
      return %sum
    } {
      return %x
    }
    return %y
  })",
        {.inputs = *inputs});
  writeFile(dir / "load.py", R"(
import pathlib, sys, torch
folder = pathlib.Path(sys.argv[1])
load = lambda name: torch.export.load(folder / f"{name}.pt2").module()
sizes = load("sizes")
for n in (2, 3, 5, 8, 17, 64):
    assert sizes(torch.ones(n, 4)).shape == (n + min(max((8 - n % 8) % 8, 2), 5), 4), n
x, y, last = torch.arange(8.0).view(2, 4), torch.arange(8.0).view(2, 4), 0
for i in range(3):
    y, last = (y + i) * last, i
torch.testing.assert_close(load("turns")(x), y + last)
fixed = load("fixed")
torch.testing.assert_close(fixed(True, torch.ones(2), 1.0), torch.full((2,), 2.0))
try:
    fixed(False, torch.ones(2), 1.0)
except Exception as e:
    assert "flag" in str(e) or "True" in str(e), e
else:
    raise AssertionError("the program takes another value than it was written for")
)");
  const std::string command =
      GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "load.py").string() + " " + dir.path().string();
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("what torch.export cannot hold is refused with the reason") {
  const TempDir dir;
  const auto refused = [&](const Graph& g, const char* why) {
    const Status s = exportModel(g, (dir / "m.pt2").string());
    REQUIRE_FALSE(s);
    CHECK(s.error().kind == ErrorKind::BadInput);
    CHECK_THAT(s.error().message, ContainsSubstring(why));
  };
  const auto parsed = [](const std::string& body) {
    auto g = parseText("graph g {\n" + body + "\n}", torchSemantics().operators());
    REQUIRE_RESULT(g);
    return std::move(*g);
  };
  refused(parsed("input %x : f32[2]\n input %flag : bool\n return %x"), "input flag is bool");
  refused(parsed("input %x : f32[2]\n input %more : float\n return %x"), "input more is float");
  refused(parsed("input %x : f32[2]\n input %n : int\n %c = aten.gt.int(%n, 1) : bool\n %d = aten.__not__.default(%c) "
                 ": bool\n "
                 "%y = prim.If(%d) : f32[2] {\n return %x\n } {\n"
                 " %z = aten.neg.default(%x) : f32[2]\n return %z\n }\n return %y"),
          "its result is bool");
  refused(parsed("input %x : f32[2]\n input %c : b8[]\n %y = prim.If(%c) : f32[2] {\n %w = aten.neg_.default(%x) : "
                 "f32[2]\n return %w\n } {\n"
                 " return %x\n }\n return %y"),
          "writes in place");
  const auto loop = [&](const std::string& head, const std::string& turn) {
    return parsed("input %x : f32[2]\n input %n : int\n input %c : b8[]\n " + head +
                  " : f32[2] {\n %i : int; %a : f32[2];\n " + turn + "\n }\n return %y");
  };
  const std::string forever = "%go = aten.Bool.Tensor(%c) : bool\n %y = prim.Loop(9223372036854775807, %go, %x)";
  refused(loop("%y = prim.Loop(%n, True, %x)", "%b = aten.neg.default(%a) : f32[2]\n return True, %b"),
          "counts its turns");
  refused(loop(forever,
               "%b = aten.neg.default(%a) : f32[2]\n %d = aten.gt.Tensor(%b, 0) : b8[2]\n %e = aten.any.default(%d) : "
               "b8[]\n "
               "%f = aten.Bool.Tensor(%e) : bool\n return %f, %b"),
          "one computation");
  refused(loop(forever, "%b = aten.mul.Tensor(%a, %i) : f32[2]\n return %go, %b"), "number of its turn");
  refused(loop("%y = prim.Loop(1000000, True, %x)", "%b = aten.neg.default(%a) : f32[2]\n return True, %b"),
          "too many to write out");
  refused(parsed("input %x : f32[4]\n input %n : i64[]\n %i = aten.Int.Tensor(%n) : int\n %y = aten.slice.Tensor(%x, "
                 "0, 0, %i, 1) : f32[2]\n return %y"),
          "node i (aten.Int.Tensor): it reads a number out of a tensor that only a run computes");
  refused(parsed("input %x : f32[s0]\n %n = aten.size.int(%x, 0) : int\n %h = aten.mul.Tensor(%n, 0.5) : f32[]\n %i = "
                 "aten.Int.Tensor(%h) : int\n %y = aten.slice.Tensor(%x, 0, 0, %i, 1) : f32[s1]\n return %y"),
          "give the model's inputs (--inputs)");
}
