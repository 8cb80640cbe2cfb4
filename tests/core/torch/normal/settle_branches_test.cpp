// What scripted code asks of ranks and dtypes, once they are known: branches, loops and lists of graphs as the importer
// of TorchScript leaves them.
#include <memory>
#include <string>

#include "core/ir/verify.h"
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

struct Settled {
  std::string text;
  SettledBranches counts;
  bool holds(const char* what) const { return text.find(what) != text.npos; }
};

Settled settled(const std::string& body) {
  Graph g = graphOf("graph g {\n" + body + "}", operators());
  const SettledBranches counts = normalizeRecorded(g, operators());
  const Status valid = verify(g);
  INFO((valid ? "" : valid.error().format()));
  REQUIRE(valid);
  return {toText(g), counts};
}

std::string ifOn(const std::string& condition, const std::string& source = "\"model.py\":3") {
  return condition + " %r = prim.If(%c) : tensor " + source +
         " {\n %a = aten.relu.default(%x) : f32[2,3]\n return %a\n } {\n"
         " %b = aten.tanh.default(%x) : f32[2,3]\n return %b\n }\n return %r\n";
}

}  // namespace

TEST_CASE("the rank decides a branch, nested ones too") {
  const Settled yes =
      settled(" input %x : f32[2,3]\n" + ifOn(" %d = aten.dim.default(%x) : int\n %c = aten.eq.int(%d, 2) : bool\n"));
  CHECK(yes.holds("aten.relu.default"));
  CHECK_FALSE(yes.holds("prim.If"));
  CHECK_FALSE(yes.holds("aten.tanh.default"));
  CHECK_FALSE(yes.holds("aten.dim.default"));
  CHECK(yes.counts.branches == 1);
  const Settled no =
      settled(" input %x : f32[2,3]\n" + ifOn(" %d = aten.dim.default(%x) : int\n %e = aten.eq.int(%d, 3) : bool\n"
                                              " %c = prim.If(%e) : bool {\n return True\n } {\n return False\n }\n"));
  CHECK(no.holds("aten.tanh.default"));
  CHECK_FALSE(no.holds("prim.If"));
  CHECK(no.counts.branches == 2);
}

TEST_CASE("a size decides nothing: it is the example's") {
  const Settled s =
      settled(" input %x : f32[2,3]\n" + ifOn(" %n = aten.size.int(%x, 0) : int\n %c = aten.eq.int(%n, 2) : bool\n"));
  CHECK(s.holds("prim.If"));
  CHECK(s.counts.branches == 0);
}

TEST_CASE("an unknown rank decides nothing") {
  const Settled s =
      settled(" input %x : tensor\n" + ifOn(" %d = aten.dim.default(%x) : int\n %c = aten.eq.int(%d, 2) : bool\n"));
  CHECK(s.holds("prim.If"));
}

TEST_CASE("a loop of as many trips as there are dimensions is written out, and so is the list that it fills") {
  const Settled s = settled(
      " input %x : f32[2,3,4]\n"
      " %d = aten.dim.default(%x) : int\n"
      " %n = aten.sub.int(%d, 2) : int\n"
      " %l = prim.ListConstruct() : list[float]\n"
      " !Loop = prim.Loop(%n, True) { %trip : int;\n"
      "  %append = aten.append.t(%l, 2.0) : list[float]\n  return True\n }\n"
      " %y = aten.upsample_nearest1d.vec(%x, None, %l) : f32[2,3,8]\n return %y\n");
  CHECK(s.holds("scale_factors=[2.0]"));
  CHECK_FALSE(s.holds("prim."));
  CHECK(s.counts.loops == 1);
}

TEST_CASE("each trip computes with what the one before has left") {
  const Settled s = settled(
      " input %x : f32[2,3]\n"
      " %d = aten.dim.default(%x) : int\n"
      " %y = prim.Loop(%d, True, %x) : tensor { %trip : int; %carried : f32[2,3];\n"
      "  %z = aten.add.Tensor(%carried, %trip) : f32[2,3]\n  return True, %z\n }\n"
      " return %y\n");
  CHECK_FALSE(s.holds("prim.Loop"));
  CHECK(s.holds("aten.add.Tensor(%x, other=0"));
  CHECK(s.holds("other=1"));
  CHECK(s.counts.loops == 1);
}

TEST_CASE("a list that is written to later stays one") {
  const Settled s = settled(
      " input %x : f32[2,3]\n"
      " %l = prim.ListConstruct(1) : list[int]\n"
      " %before = aten.sum.dim_IntList(%x, %l) : f32[2]\n"
      " %append = aten.append.t(%l, 0) : list[int]\n"
      " %after = aten.sum.dim_IntList(%x, %l) : f32[]\n"
      " return %before, %after\n");
  CHECK(s.holds("prim.ListConstruct(1)"));
  CHECK(s.holds("aten.append.t"));
}

TEST_CASE("checks of PyTorch's own modules go, the model's own stay") {
  const auto check = [](const std::string& file) {
    return " input %x : f32[2,3]\n %n = aten.size.int(%x, 0) : int\n %c = aten.eq.int(%n, 1) : bool\n"
           " !If = prim.If(%c) \"" +
           file +
           "\":7 {\n !Raise = prim.RaiseException.default(\"too small\", None)\n return\n } {\n return\n }\n"
           " %y = aten.relu.default(%x) : f32[2,3]\n return %y\n";
  };
  const Settled own = settled(check("/usr/lib/torch/nn/functional.py"));
  CHECK_FALSE(own.holds("RaiseException"));
  CHECK(own.counts.checks == 1);
  const Settled users = settled(check("/home/me/model.py"));
  CHECK(users.holds("RaiseException"));
  CHECK(users.counts.checks == 0);
}
