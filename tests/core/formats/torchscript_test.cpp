#include <cstdlib>

#include "core/formats/export.h"
#include "core/formats/model.h"
#include "core/ir/calls/default_values.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/semantics.h"
#include "tests/core/formats/fixtures.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using namespace graft::test;

TEST_CASE("a traced model keeps its modules, weights and source lines") {
  const Model m = imported("net.pt");
  const Graph& g = m.graph;
  CHECK(m.format->name == "torchscript");
  CHECK(g.name == "Net");
  CHECK(count(g, "aten.linear.default") == 4);
  const Node* linear = first(g, "aten.linear.default");
  REQUIRE(linear);
  CHECK(g.scopeOf(linear->id) == "layers.0.fc1");
  const ModuleCall& call = g.moduleCall(linear->module);
  CHECK(call.type == "torch.nn.modules.linear.Linear");
  REQUIRE(call.constructor.size() == 3);
  CHECK(call.constructor[1] == std::pair<std::string, Argument>("out_features", Argument(int64_t{16})));
  CHECK(g.moduleCall(call.parent).path == "layers.0");
  const Node* gelu = first(g, "aten.gelu.default");
  REQUIRE(g.sourceOf(*gelu));
  CHECK_THAT(g.sourceOf(*gelu)->file, EndsWith(".py"));
  CHECK(g.sourceOf(*gelu)->line > 0);
  // Both layers share fc1's weight.
  CHECK(g.findWeight("layers.0.fc1.weight"));
  CHECK_FALSE(g.findWeight("layers.1.fc1.weight"));
  CHECK(g.value(g.findWeight("scale")).isBuffer);
}

TEST_CASE("traced sizes and constants are numbers, not tensors") {
  const Graph g = imported("net.pt").graph;
  for (const char* gone :
       {"prim.NumToTensor.Scalar", "aten.Int.Tensor", "prim.ListConstruct", "aten.floor_divide.default"})
    CHECK(count(g, gone) == 0);
  bool half = false;
  for (NodeId id : g.order())
    if (g.node(id).op->name == "aten.mul.Tensor") half |= g.node(id).args[1] == Argument(0.5);
  CHECK(half);
  const Node* view = first(g, "aten.view.default");
  REQUIRE(view);
  REQUIRE(view->args[1].items());
  CHECK(view->args[1].items()->size() == 4);
}

TEST_CASE("a number in a tensor is a number again where the operator has an overload for one") {
  const Graph g = imported("repeats.pt").graph;
  CHECK(count(g, "prim.NumToTensor.Scalar") == 0);
  CHECK(count(g, "aten.repeat_interleave.self_Tensor") == 0);
  CHECK(count(g, "aten.repeat_interleave.self_int") == 1);
}

TEST_CASE("a number that a trace computes of a known size and a constant is that number") {
  const Graph g = imported("attentions.pt").graph;
  for (const char* gone : {"prim.NumToTensor.Scalar", "aten.Int.Tensor", "aten.div.Tensor_mode"})
    CHECK(count(g, gone) == 0);
  for (const NodeId id : g.order())
    for (const ValueId v : g.node(id).outputs)
      if (g.value(v).type.isTensor()) CHECK(g.value(v).type.tensorInfo.shape);
}

TEST_CASE("sizes that must be one share a symbol, and others that an example has alike do not") {
  for (const char* name : {"across.pt", "across_one.pt"}) {
    INFO(name);
    const Graph g = imported(name).graph;
    const auto dim = [&](size_t input, size_t d) {
      return g.value(g.inputs()[input]).type.tensorInfo.shape->at(d).symbol;
    };
    CHECK(dim(0, 0) == dim(1, 0));
    CHECK(dim(0, 1) != dim(1, 1));
    CHECK_FALSE(dim(0, 1).empty());
    CHECK_FALSE(dim(1, 1).empty());
  }
}

TEST_CASE("in-place operators become functional where nobody can tell, and stay where somebody can") {
  const Graph g = imported("inplace.pt").graph;
  CHECK(count(g, "aten.relu_.default") == 0);
  CHECK(count(g, "aten.relu.default") == 1);
  CHECK(count(g, "aten.add_.Tensor") == 0);
  CHECK(count(g, "aten.add.Tensor") == 1);
  CHECK(count(g, "aten.mul_.Tensor") == 1);  // through a view of what is returned
}

TEST_CASE("a scripted model keeps its control flow and loses its bookkeeping") {
  const Model m = imported("scripted.pt");
  const Graph& g = m.graph;
  CHECK(count(g, "prim.Loop") == 1);
  CHECK(count(g, "prim.If") == 2);
  CHECK(count(g, "prim.RaiseException") == 0);
  CHECK(count(g, "aten.append.t") == 1);  // the list grows inside of a loop
  CHECK(g.value(g.inputs()[1]).type == Type::optional(Type::tensor()));
  REQUIRE(g.returns().size() == 1);
  REQUIRE(g.returns()[0].isTuple());
  CHECK(m.methods == std::vector<std::string>{"double"});
  const Graph other = imported("scripted.pt", {.method = "double"}).graph;
  CHECK(other.nodeCount() == 1);
  auto none = importModel(fixture("scripted.pt"), torchSemantics(), {.method = "triple"});
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, ContainsSubstring("forward, double"));
}

TEST_CASE("arguments that have defaults may be left out of a file of inputs") {
  const Graph g = imported("scripted.pt").graph;
  REQUIRE(g.inputs().size() == 3);
  CHECK_FALSE(findDefault(g, g.inputs()[0]));
  REQUIRE(findDefault(g, g.inputs()[1]));
  CHECK(findDefault(g, g.inputs()[1])->isNone());
  REQUIRE(findDefault(g, g.inputs()[2]));
  CHECK(*findDefault(g, g.inputs()[2]) == Argument(int64_t{3}));

  auto all = makeInputs(g, {"x=f32[2,4]:randn"}, 1);
  REQUIRE_RESULT(all);
  CHECK(all->describe() == std::vector<std::string>{"f32[2,4]", "None", "3"});
  auto asked = makeInputs(g, {"f32[2,4]:randn", "None", "5"}, 1);
  REQUIRE_RESULT(asked);
  CHECK(asked->describe() == std::vector<std::string>{"f32[2,4]", "None", "5"});
  auto first = makeInputs(g, {"f32[2,4]:randn"}, 1);
  REQUIRE_RESULT(first);
  CHECK(first->size() == 3);

  TempDir dir;
  const Graph one = graphOf("graph g {\n input %x : tensor\n return %x\n}");
  REQUIRE_RESULT(saveTensors(*makeInputs(one, {"f32[2,4]:randn"}, 1), dir / "in.pt"));
  auto loaded = loadInputs(dir / "in.pt", g);
  REQUIRE_RESULT(loaded);
  CHECK(loaded->describe() == std::vector<std::string>{"f32[2,4]", "None", "3"});
  REQUIRE_RESULT(saveTensors(*makeInputs(g, {"f32[2,4]:randn", "f32[2,4]:randn", "5"}, 1), dir / "in.pt"));
  loaded = loadInputs(dir / "in.pt", g);
  REQUIRE_RESULT(loaded);
  CHECK(loaded->describe() == std::vector<std::string>{"f32[2,4]", "f32[2,4]", "5"});
}

/// The model gives what PyTorch gave when the fixture was made.
static void givesTheSame(const std::string& name, const Graph& g) {
  INFO(name);
  auto program = Program::build(g);
  REQUIRE_RESULT(program);
  auto in = loadInputs(fixture(name + "_in.pt"), g);
  REQUIRE_RESULT(in);
  auto expected = loadTensors(fixture(name + "_out.pt"));
  REQUIRE_RESULT(expected);
  auto actual = program->run(*in);
  REQUIRE_RESULT(actual);
  for (const Difference& d : compareTensors(*expected, *actual)) {
    INFO(d.why);
    CHECK(d.passed);
  }
}

TEST_CASE("own classes, torch.no_grad, torch.jit.fork and isinstance are followed in scripted models") {
  for (const std::string name : {"objects", "forked", "packed"}) {
    INFO(name);
    const Model m = imported(name + ".pt");
    CHECK(count(m.graph, "aten.linear.default") == (name == "objects" ? 1 : name == "forked" ? 2 : 0));
    CHECK(count(m.graph, "prim.isinstance") == 0);
    givesTheSame(name, m.graph);
  }
  auto changed = importModel(fixture("changed.pt"), torchSemantics());
  REQUIRE_FALSE(changed);
  CHECK_THAT(
      changed.error().message,
      ContainsSubstring("writes the attribute corners of an object of its own class Boxes inside of control flow"));
}

TEST_CASE("nothing follows an exception whose condition is known, and what stands around it goes on") {
  const Graph g = imported("raises.pt").graph;
  givesTheSame("raises", g);
  CHECK(count(g, "prim.RaiseException.default") == 1);
  CHECK(count(g, "aten.neg.default") + count(g, "aten.exp.default") + count(g, "aten.add.Tensor") == 0);
  CHECK(count(g, "aten.relu.default") == 1);
  const Node* branch = first(g, "prim.If");
  REQUIRE(branch);
  CHECK(g.block(branch->blocks[0]).returns[0].isNone());
}

TEST_CASE("a list that a called method fills in a loop is one value, and its attribute is set to all of it") {
  const Graph g = imported("pyramid.pt").graph;
  givesTheSame("pyramid", g);
  const Node *list = first(g, "prim.ListConstruct"), *set = first(g, "prim.SetAttr");
  REQUIRE(list);
  REQUIRE(set);
  CHECK(count(g, "prim.SetAttr") == 1);
  CHECK(set->args == std::vector<Argument>{Argument("levels"), Argument(list->outputs[0])});
  CHECK(g.order().back() == set->id);
}

TEST_CASE("autocast that is switched off changes nothing, and casts that a file does not hold are refused") {
  for (const char* name : {"autocast_off.pt2", "autocast_off.pt"}) {
    INFO(name);
    const Model m = imported(name);
    CHECK(count(m.graph, "aten.matmul.default") == 1);
    CHECK(count(m.graph, "aten.to.dtype") == 0);
  }
  const Model m = imported("autocast_off.pt2");
  auto program = Program::build(m.graph);
  REQUIRE_RESULT(program);
  auto actual = program->run(*loadInputs(fixture("autocast_in.pt"), m.graph));
  REQUIRE_RESULT(actual);
  for (const Difference& d : compareTensors(*loadTensors(fixture("autocast_off_out.pt")), *actual)) CHECK(d.passed);
  for (const char* name : {"autocast.pt2", "autocast.pt"}) {
    auto refused = importModel(fixture(name), torchSemantics());
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("computes a part under torch.autocast"));
  }
}

TEST_CASE("a scripted model that returns a named tuple still does so when it is written") {
  const Model m = imported("named.pt");
  REQUIRE(m.graph.calling);
  REQUIRE(m.graph.calling->namedTuples.size() == 1);
  CHECK(m.graph.calling->namedTuples[0].second == std::vector<std::string>{"scores", "both"});
  TempDir dir;
  REQUIRE_RESULT(exportModel(m.graph, dir / "m.pt"));
  writeFile(dir / "run.py", R"(
import sys, torch
x = torch.randn(2, 3)
m = torch.jit.load(sys.argv[1] + "/m.pt")
for y in (m(x), torch.jit.freeze(m.eval())(x)):
    assert torch.equal(y.scores, x.softmax(-1)) and torch.equal(y.both[1], x + 1) and type(y).__name__ == "Scores", y
)");
  const std::string command =
      GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "run.py").string() + " " + dir.path().string();
  REQUIRE(std::system(command.c_str()) == 0);
  const auto again = importModel(dir / "m.pt", torchSemantics());
  REQUIRE_RESULT(again);
  CHECK(toText(again->graph, {.sources = false}) == toText(m.graph, {.sources = false}));
}

TEST_CASE("a model with packed quantized weights is read") {
  const Model m = imported("quantized.pt");
  CHECK(count(m.graph, "quantized.linear.default") == 1);
}

TEST_CASE("an operator that this machine does not have is kept") {
  const Graph g = imported("custom.pt").graph;
  const Node* fancy = first(g, "fixture_ops.fancy.default");
  REQUIRE(fancy);
  CHECK_FALSE(fancy->op->hasSchema);
  CHECK(fancy->outputs.size() == 2);
  CHECK(count(g, "aten.add.Tensor") == 1);
  CHECK(torchSemantics().operators().find("fixture_ops.fancy.default") == nullptr);
}

TEST_CASE("types follow from the inputs', symbolic dimensions included") {
  Graph g = imported("net.pt").graph;
  REQUIRE(inferAllTypes(g, {Type::tensor(DType::Float32, {Dim("batch"), Dim("length"), Dim(8)})}));
  const Argument& out = g.returns()[0];
  REQUIRE(out.isValue());
  CHECK(shapeString(g.value(out.valueId()).type.tensorInfo) == "[batch, 2, length, 4]");
  CHECK(g.value(out.valueId()).type.tensorInfo.dtype == DType::Float32);
  Graph wrong = imported("net.pt").graph;
  auto refused = inferAllTypes(wrong, {Type::tensor(DType::Float32, {Dim(2), Dim(3), Dim(9)})});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, ContainsSubstring("layer_norm"));
}

TEST_CASE("nodes of weights alone can be computed beforehand") {
  Graph g;
  const Graph net = imported("net.pt").graph;
  const Value& w = net.value(net.findWeight("scale"));
  const ValueId scale = g.addWeight("scale", w.type, w.data);
  const NodeId doubled =
      g.append(g.root(), torchSemantics().operators().find("aten.mul.Tensor"), {Argument(scale), Argument(int64_t{3})});
  auto result = torchSemantics().evaluate(g, doubled);
  REQUIRE(result);
  CHECK(toString((*result)[0].type) == "f32[8]@cpu");
  REQUIRE((*result)[0].data);
  CHECK((*result)[0].data->byteSize() == 32);
}

TEST_CASE("attributes that a model sets are kept, written at the same place, and never set while reading") {
  const Graph g = imported("sets.pt").graph;
  CHECK(count(g, "prim.SetAttr") == 2);
  const Node* set = first(g, "prim.SetAttr");
  REQUIRE(set);
  CHECK(set->args[0] == Argument("count"));
  CHECK(set->outputs.empty());
  CHECK_FALSE(set->op->pure());
  // The graph holds what the file holds, not what a run would leave.
  const ValueId held = g.findWeight("count");
  REQUIRE(held);
  CHECK(g.value(held).isBuffer);
  const auto run = Program::build(g);
  const auto inputs = makeInputs(g, {"f32[2,4]:ones"}, 0);
  REQUIRE_RESULT(run);
  REQUIRE_RESULT(inputs);
  for (int k = 0; k < 2; ++k) CHECK(run->run(*inputs));  // each begins with what the file holds

  const TempDir dir;
  const std::string path = (dir / "again.pt").string();
  const Status written = exportModel(g, path);
  REQUIRE_RESULT(written);
  const auto again = importModel(path, torchSemantics());
  REQUIRE(again);
  CHECK(toText(again->graph) == toText(g));
  writeFile(dir / "load.py", R"(
import sys, torch
m = torch.jit.load(sys.argv[1])
x = torch.ones(2, 4)
assert m(x).sum() == 8 and m(x).sum() == 16 and m.count == 2 and m.inner.last.tolist() == [2.0] * 4
)");
  CHECK(std::system((GRAFT_SOURCE_DIR "/.venv/bin/python " + (dir / "load.py").string() + " " + path).c_str()) == 0);

  const auto branch = importModel(fixture("sets_in_branch.pt"), torchSemantics());
  REQUIRE_FALSE(branch);
  CHECK(branch.error().kind == ErrorKind::BadInput);
  CHECK_THAT(branch.error().message, ContainsSubstring("writes its attribute count inside of control flow"));
}
