// Which of the devices that a graph names mean the model's place. What runs a graph and what writes it as TorchScript
// ask the same; a machine without a GPU runs what was traced on one.
#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/semantics.h"
#include "core/torch/values/placement.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::graphOf;

namespace {

const Semantics& torchSemantics() {
  static const auto semantics = makeTorchSemantics();
  return *semantics;
}

/// A graph whose input is on `held` and whose masks are made on `named`.
Graph masks(const std::string& held, const std::vector<std::string>& named) {
  std::string text = "graph Masks {\n input %x : f32[2,4]" + (held.empty() ? "" : "@" + held) + "\n";
  std::string sum = "%x";
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string n = std::to_string(i);
    text += " %m" + n + " = aten.arange.default(4, dtype=torch.float32, device=device(\"" + named[i] + "\"))\n %s" + n +
            " = aten.add.Tensor(" + sum + ", %m" + n + ")\n";
    sum = "%s" + n;
  }
  return graphOf(text + " return " + sum + "\n}", torchSemantics().operators());
}

}  // namespace

TEST_CASE(
    "a name means the model's place where the model was on that device alone, or has its weights and inputs there") {
  const auto place = [](const char* held, std::vector<std::string> named) {
    return Placement(masks(held, named)).model();
  };
  CHECK(place("cpu", {}) == "");
  CHECK(place("cpu", {"cpu"}) == "cpu");
  CHECK(place("", {"cuda:0"}) == "cuda:0");
  CHECK(place("cpu", {"cuda:0"}) == "cuda:0");  // a TorchScript file's weights are read to the CPU
  CHECK(place("cuda:0", {"cuda:0", "cpu"}) == "cuda:0");
  CHECK(place("cuda:0", {"cpu"}) == "");  // a table on the CPU, by intent
}

TEST_CASE("what runs and what writes read a device's name alike") {
  struct Case {
    const char *name, *held, *elsewhere;
    bool moves;
  };
  for (const Case& c : {Case{"cpu", "cpu", "cuda:0", true}, Case{"cuda:0", "cuda:0", "cpu", true},
                        Case{"cpu", "", "cuda:0", true}, Case{"cpu", "cuda:0", "cuda:1", false}}) {
    INFO(c.name << " in a model on '" << c.held << "', run on " << c.elsewhere);
    const Graph g = masks(c.held, {c.name});
    const Placement place(g);
    const Node& mask = g.node(g.findNode("m0"));
    CHECK(place.follows(mask, DeviceName{c.name}) == c.moves);
    CHECK(place.placed(mask, DeviceName{c.name}, c.elsewhere).name == (c.moves ? c.elsewhere : c.name));
    // A GPU that is no place of the model's is none of the program's either.
    CHECK(place.placed(mask, DeviceName{"cuda:7"}, c.elsewhere).name == c.elsewhere);
  }
}

TEST_CASE("what was traced on a GPU runs on the CPU, and its code asks the module for the one place it names") {
  const test::TempDir dir;
  const auto inputs = makeInputs(masks("cpu", {}), {}, 1);
  REQUIRE_RESULT(inputs);
  std::optional<TensorSet> first;
  for (const std::vector<std::string>& named :
       {std::vector<std::string>{"cpu", "cpu"}, {"cuda:0", "cuda:0"}, {"cuda:0", "cpu"}, {"cuda:1", "cuda:0"}}) {
    const Graph g = masks("", named);
    INFO(toText(g));
    const auto program = Program::build(g);
    REQUIRE_RESULT(program);
    const auto out = program->run(*inputs);
    REQUIRE_RESULT(out);
    if (!first) first = *out;
    for (const Difference& d : compareTensors(*first, *out)) CHECK(d.maxAbs == 0);
    const std::string path = (dir / "masks.pt").string();
    const Status written = exportModel(g, path);
    REQUIRE_RESULT(written);
    const auto again = importModel(path, torchSemantics());
    REQUIRE_RESULT(again);
    CHECK(toText(again->graph) == toText(g));
  }
}

namespace {

/// Whether the node called `name` computes on the host in a program elsewhere.
bool isOnHost(const std::string& body, const char* name) {
  const Graph g =
      graphOf("graph Copies {\n input %x : f32[2,4]@cpu\n input %y : i64[2]@cpu\n weight %w \"w\" : f32[4,4]@cpu\n" +
                  body + "\n}",
              torchSemantics().operators());
  return Placement(g).onHost(g.node(g.findNode(name)));
}

const std::string toCpu = ", device=device(\"cpu\"), dtype=torch.float32)\n";

}  // namespace

TEST_CASE("a copy to the host stays where the model returns it or reads it there") {
  CHECK(isOnHost(" %c = aten.to.device(%x" + toCpu + " return %c", "c"));
  CHECK(isOnHost(" %c = aten._to_copy.default(%x, device=device(\"cpu\"))\n return %c", "c"));
  const std::string read =
      " %m = aten.max.default(%x)\n %c = aten.to.device(%m" + toCpu + " %n = aten.item.default(%c)\n";
  CHECK(isOnHost(read + " %s = aten.mul.Scalar(%x, %n)\n return %s", "c"));
  CHECK_FALSE(isOnHost(read + " %s = aten.mul.Scalar(%x, %n)\n return %s", "s"));
}

TEST_CASE("what is made for a copy on the host is made there, and what goes back is not") {
  const std::string body = " %c = aten.to.device(%x" + toCpu +
                           " %a = aten.arange.default(4, device=device(\"cpu\"))\n %s = aten.add.Tensor(%c, %a)\n"
                           " %b = aten.to.device(%s" +
                           toCpu + " %r = aten.add.Tensor(%b, %x)\n return (%s, %r)";
  CHECK(isOnHost(body, "c"));
  CHECK(isOnHost(body, "a"));
  CHECK(isOnHost(body, "s"));
  CHECK_FALSE(isOnHost(body, "b"));
  CHECK_FALSE(isOnHost(body, "r"));
}

TEST_CASE("what an operator takes beside the model's tensors follows the model, however far the way is") {
  const std::string mask = " %c = aten.to.device(%y, device=device(\"cpu\"), dtype=torch.bool)\n";
  CHECK_FALSE(isOnHost(mask + " %r = aten.masked_fill.Scalar(%x, %c, 0.0)\n return %r", "c"));
  CHECK_FALSE(isOnHost(mask + " %t = aten.index.Tensor(%w, indices=[%c])\n return (%t, %c)", "c"));
  CHECK_FALSE(isOnHost(mask + " %v = aten.unsqueeze.default(%c, 1)\n %e = aten.expand.default(%v, size=[2, 4])\n"
                              " %r = aten.where.ScalarOther(%e, %x, 0.0)\n return (%r, %c)",
                       "c"));
  // It passes through the host for nothing.
  CHECK_FALSE(isOnHost(" %c = aten.to.device(%x" + toCpu + " %b = aten.to.device(%c" + toCpu +
                           " %r = aten.add.Tensor(%b, %x)\n return %r",
                       "c"));
  // Sizes are read wherever it is.
  CHECK_FALSE(isOnHost(" %c = aten.to.device(%x" + toCpu +
                           " %n = aten.size.int(%c, dim=0)\n"
                           " %r = aten.mul.Scalar(%x, %n)\n return %r",
                       "c"));
}

TEST_CASE("what is made from sizes alone is where the model is, also where only that is returned") {
  const std::string body = " %a = aten.arange.default(4, device=device(\"cpu\"))\n %c = aten.to.device(%a" + toCpu;
  CHECK_FALSE(isOnHost(body + " return %c", "a"));
  CHECK_FALSE(isOnHost(body + " return %c", "c"));
}

TEST_CASE("what came along to another device is there in each operator that reads it") {
  const Graph g = graphOf(
      "graph Model {\n input %x : f32[2,4]@cpu\n input %w : f32[4,4]@cpu\n"
      " %a = aten.arange.default(4, dtype=torch.float32, device=device(\"cpu\"))\n %m = aten.mm.default(%x, %w)\n"
      " %s = aten.add.Tensor(%m, %a)\n %z = aten.zeros.default([4])\n %e = aten.mul.Tensor(%s, %z)\n return %e\n}",
      torchSemantics().operators());
  const auto inputs = makeInputs(g, {}, 1);
  REQUIRE_RESULT(inputs);
  for (const char* device : {"cpu", "meta"}) {
    INFO(device);
    const bool elsewhere = std::string(device) != "cpu";
    const auto program = Program::build(g, {device});
    REQUIRE_RESULT(program);
    CHECK(program->moved().names == (elsewhere ? 1 : 0));
    const auto there = convert(*inputs, device, {});
    REQUIRE_RESULT(there);
    size_t seen = 0;
    const auto out = program->observe(*there, [&](ValueId v, const TensorSet& t) {
      INFO(g.value(v).name << " is " << t.describe()[0]);
      ++seen;
      CHECK((t.describe()[0].find("@meta") != std::string::npos) == elsewhere);
    });
    REQUIRE_RESULT(out);
    CHECK(seen == 5);
  }
}

TEST_CASE("a program elsewhere names the copies that stay on the host") {
  const Graph g = graphOf(
      "graph Model {\n input %x : f32[2,4]@cpu\n %s = aten.neg.default(%x)\n"
      " %c = aten.to.device(%s" +
          toCpu + " return %c\n}",
      torchSemantics().operators());
  const auto here = Program::build(g), there = Program::build(g, {"meta"});
  REQUIRE_RESULT(here);
  REQUIRE_RESULT(there);
  CHECK(here->moved().stays.empty());
  CHECK(there->moved().stays == std::vector<std::string>{"c (aten.to.device)"});
  CHECK(there->moved().names == 0);
}

TEST_CASE("types speak of the file's device, wherever the run that recorded them was") {
  for (const std::vector<std::string>& named : {std::vector<std::string>{"cpu"}, {}}) {
    Graph g = masks("", named);
    const auto inputs = makeInputs(masks("cpu", {}), {}, 1);
    REQUIRE_RESULT(inputs);
    const auto there = convert(*inputs, "meta", {});
    REQUIRE_RESULT(there);
    const Status recorded = recordTypes(g, *there);
    REQUIRE_RESULT(recorded);
    CHECK(Placement(g).model() == (named.empty() ? "" : "cpu"));
    for (const ValueId v : g.inputs()) CHECK(g.value(v).type.tensorInfo.device == (named.empty() ? "meta" : "cpu"));
  }
}
