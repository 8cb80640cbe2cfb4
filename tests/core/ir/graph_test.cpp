#include "core/ir/graph.h"

#include "core/ir/verify.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

using namespace graft;

namespace {

OperatorRef op(const char* name) { return testOperators().find(name); }

NodeId relu(Graph& g, ValueId x) { return g.append(g.root(), op("aten.relu.default"), {Argument(x)}); }

}  // namespace

TEST_CASE("a graph is a value: changing a copy leaves the original as it was") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  const NodeId n = relu(g, x);
  g.setReturns(g.root(), {Argument(g.output(n))});
  Graph copy = g;
  copy.setReturns(copy.root(), {Argument(x)});
  copy.erase(n);
  REQUIRE(g.nodeCount() == 1);
  REQUIRE(copy.nodeCount() == 0);
  REQUIRE(verify(g));
  REQUIRE(verify(copy));
}

TEST_CASE("a copy has room: the first nodes added to it move none of the others") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  for (int i = 0; i < 200; ++i) relu(g, x);
  for (Graph copy : {Graph(g), [&] {
                       Graph assigned;
                       assigned = g;
                       return assigned;
                     }()}) {
    Graph again = copy;
    const Node* first = &again.node(again.order().front());
    const Value* value = &again.value(x);
    for (int i = 0; i < 20; ++i) relu(again, x);
    CHECK(&again.node(again.order().front()) == first);
    CHECK(&again.value(x) == value);
    CHECK(verify(again));
    CHECK(again.nodeCount() == 220);
  }
  CHECK(g.nodeCount() == 200);
}

TEST_CASE("names are unique and count like torch.fx's") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  REQUIRE(g.node(relu(g, x)).name == "relu");
  REQUIRE(g.node(relu(g, x)).name == "relu_1");
  REQUIRE(g.node(g.append(g.root(), op("aten.relu.default"), {Argument(x)}, "relu_1")).name == "relu_2");
  REQUIRE(g.rename(x, "relu") == "relu_3");
  REQUIRE(g.findValue("relu_3") == x);
}

TEST_CASE("x*x is one user with two uses") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  const NodeId n = g.append(g.root(), op("aten.mul.Tensor"), {Argument(x), Argument(x)});
  REQUIRE(g.value(x).users == std::vector<NodeId>{n});
  const ValueId y = g.addInput("y", Type::tensor());
  g.setArgument(n, 0, Argument(y));
  REQUIRE(g.value(x).users == std::vector<NodeId>{n});
  g.setArgument(n, 1, Argument(y));
  REQUIRE(g.value(x).users.empty());
  REQUIRE(verify(g));
}

TEST_CASE("replacing all uses reaches nested arguments and returns") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor()), y = g.addInput("y", Type::tensor());
  const NodeId n = g.append(g.root(), op("aten.cat.default"),
                            {Argument::list({Argument(x), Argument(y), Argument(x)}), Argument(int64_t{0})});
  g.setReturns(g.root(), {Argument::tuple({Argument(g.output(n)), Argument(x)})});
  g.replaceAllUses(x, y);
  REQUIRE(g.isUnused(x));
  REQUIRE(g.value(y).returnUses == 1);
  REQUIRE(verify(g));
}

TEST_CASE("order holds however often nodes are put at the same place") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  const NodeId first = relu(g, x), last = relu(g, x);
  std::vector<NodeId> inserted;
  for (int i = 0; i < 200; ++i) inserted.push_back(g.insertBefore(last, op("aten.relu.default"), {Argument(x)}));
  REQUIRE(verify(g));
  for (size_t i = 1; i < inserted.size(); ++i) REQUIRE(g.isBefore(inserted[i - 1], inserted[i]));
  for (int i = 0; i < 200; ++i) g.prepend(g.root(), op("aten.relu.default"), {Argument(x)});
  REQUIRE(verify(g));
  g.moveBefore(last, first);
  REQUIRE(g.isBefore(last, first));
  REQUIRE(verify(g));
}

TEST_CASE("verify names what is wrong") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor());
  const NodeId a = relu(g, x);
  const NodeId b = g.append(g.root(), op("aten.relu.default"), {Argument(g.output(a))}, "late");
  SECTION("a use before its definition") {
    g.moveBefore(b, a);
    REQUIRE_THAT(verify(g).error().message, ContainsSubstring("late uses relu before it is defined"));
  }
  SECTION("a missing argument") {
    g.setArguments(b, {});
    REQUIRE_THAT(verify(g).error().message, ContainsSubstring("0 arguments"));
  }
  SECTION("a literal of the wrong type") {
    g.setArgument(b, 0, Argument("text"));
    REQUIRE_THAT(verify(g).error().message, ContainsSubstring("is no tensor"));
  }
}

TEST_CASE("module calls form a tree with innermost common ancestors") {
  Graph g;
  const auto layer = g.addModuleCall({}, "layer.0", "my.Layer");
  const auto query = g.addModuleCall(layer, "layer.0.query", "torch.nn.modules.linear.Linear");
  const auto key = g.addModuleCall(layer, "layer.0.key", "torch.nn.modules.linear.Linear");
  REQUIRE(g.commonModule(query, key) == layer);
  REQUIRE(g.commonModule(query, layer) == layer);
  REQUIRE_FALSE(g.commonModule(query, {}));
  REQUIRE(g.moduleCall(query).lastName() == "query");
  REQUIRE(g.moduleCall(query).shortType() == "Linear");
}
