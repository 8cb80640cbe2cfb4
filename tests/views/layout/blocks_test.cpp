#include "views/layout/blocks.h"

#include <map>
#include <set>

#include "core/ir/operator.h"
#include "tests/support/catch.h"
#include "tests/views/support/sample_graphs.h"
#include "views/layout/visible_graph.h"

using namespace graft;

namespace {

struct Writer {
  Graph g;
  std::map<std::string, OperatorRef> known{};
  ValueId input() { return g.addInput("x", Type::tensor(DType::Float32, {Dim(8)})); }
  ValueId add(const std::string& op, const std::vector<ValueId>& values) {
    OperatorRef& o = known[op];
    if (!o) o = unknownOperator("aten." + op + ".default");
    std::vector<Argument> args;
    for (ValueId v : values) args.emplace_back(v);
    const NodeId n = g.append(g.root(), o, std::move(args), op);
    return g.addOutput(n, op, Type::tensor(DType::Float32, {Dim(8)}));
  }
};

/// Like a residual network: a head, equal blocks of seven operators whose result two of the next one read, a tail.
Graph residual(int blocks) {
  Writer w;
  ValueId x = w.add("relu", {w.add("convolution", {w.input()})});
  x = w.add("max_pool2d", {x});
  for (int i = 0; i < blocks; ++i) {
    ValueId y = w.add("relu", {w.add("native_batch_norm", {w.add("convolution", {x})})});
    y = w.add("native_batch_norm", {w.add("convolution", {y})});
    x = w.add("relu", {w.add("add", {y, x})});
  }
  w.g.setReturns(w.g.root(), {Argument(w.add("mean", {x}))});
  return std::move(w.g);
}

std::string operatorsOf(const Graph& g, std::string_view path) {
  std::string out;
  for (NodeId id : g.order())
    if (g.scopeOf(id) == path) out += (out.empty() ? "" : " ") + std::string(g.node(id).op->baseName());
  return out;
}

}  // namespace

TEST_CASE("what a flat graph repeats becomes blocks, which begin where least crosses and most is read") {
  Graph g = residual(6);
  addBlocks(g);
  REQUIRE(g.moduleCalls().size() == 6);
  for (const ModuleCall& call : g.moduleCalls())
    CHECK(operatorsOf(g, call.path) == "convolution native_batch_norm relu convolution native_batch_norm add relu");
  CHECK(operatorsOf(g, "") == "convolution relu max_pool2d mean");
  const ModuleCall& first = g.moduleCalls().front();
  CHECK(first.path == "block.0");
  CHECK(first.shortType() == "convolution, native_batch_norm, relu, …");
  // Drawn as modules are: equal ones once.
  const VisibleGraph view = makeVisibleGraph(g, {.depth = 0});
  int blocks = 0;
  for (const Box& box : view.boxes) {
    if (box.kind != BoxKind::Module) continue;
    ++blocks;
    CHECK(box.title == "block.0");
    CHECK(box.repeat == 6);
  }
  CHECK(blocks == 1);
  CHECK(view.boxes.size() == 4 + 1 + 2);  // with the input and the output
}

TEST_CASE("a block that repeats something itself has parts") {
  Writer w;
  const ValueId x = w.input();
  ValueId y = x;
  for (int block = 0; block < 5; ++block) {
    for (int part = 0; part < 4; ++part) {
      const ValueId z = w.add("tanh", {w.add("mul", {y, w.add("sigmoid", {y})})});
      y = w.add("add", {z, y});
    }
    y = w.add("sub", {y, x});
  }
  w.g.setReturns(w.g.root(), {Argument(y)});
  addBlocks(w.g);
  const Graph& g = w.g;
  CHECK(g.moduleCalls().size() == 5 + 20);
  CHECK(operatorsOf(g, "block.2") == "sub");
  CHECK(operatorsOf(g, "block.2.part_2_3") == "sigmoid mul tanh add");
  for (const ModuleCall& call : g.moduleCalls())
    CHECK(bool(call.parent) == (call.path.find(".part_") != std::string::npos));
  std::set<std::string_view> names;
  for (const ModuleCall& call : g.moduleCalls()) CHECK(names.insert(call.lastName()).second);
  const VisibleGraph view = makeVisibleGraph(g, {.depth = 1});
  std::map<std::string, size_t> repeats;
  for (const Box& box : view.boxes)
    if (box.kind == BoxKind::Module) repeats[box.title] = box.repeat;
  CHECK(repeats == std::map<std::string, size_t>{{"block.0", 5}, {"part_0_0", 4}});
}

TEST_CASE("what has modules, is small, or repeats nothing but one operator stays as it is") {
  Graph encoder = test::encoder(6);
  const size_t before = encoder.moduleCalls().size();
  addBlocks(encoder);
  CHECK(encoder.moduleCalls().size() == before);
  Graph small = residual(2);
  addBlocks(small);
  CHECK(small.moduleCalls().empty());
  Writer w;
  ValueId y = w.input();
  for (int i = 0; i < 100; ++i) y = w.add("tanh", {y});
  w.g.setReturns(w.g.root(), {Argument(y)});
  addBlocks(w.g);
  CHECK(w.g.moduleCalls().empty());
}
