#include <map>
#include <set>

#include "tests/core/formats/fixtures.h"

using namespace graft;
using namespace graft::test;

namespace {

std::map<std::string, int> operators(const Graph& g) {
  std::map<std::string, int> out;
  for (NodeId id : g.order()) {
    const std::string& op = g.node(id).op->name;
    // Sizes are asked for as often as the exporter saw fit.
    if (op != "aten.size.int" && !op.starts_with("aten.floordiv")) ++out[op];
  }
  return out;
}

std::set<std::string> modulePaths(const Graph& g) {
  std::set<std::string> out;
  for (NodeId id : g.order())
    if (g.node(id).module) out.insert(std::string(g.scopeOf(id)));
  return out;
}

}  // namespace

TEST_CASE("one model through all ways in has the same operators, modules and weights") {
  const Graph script = imported("net.pt").graph;
  for (const char* other : {"net.pt2", "net.fx", "net_captured.fx"}) {
    INFO(other);
    const Graph g = imported(other).graph;
    CHECK(operators(g) == operators(script));
    CHECK(modulePaths(g) == modulePaths(script));
    CHECK(g.weights().size() == script.weights().size());
    CHECK(g.name == "Net");
  }
}

TEST_CASE("an exported program has symbolic shapes") {
  const Graph g = imported("net.pt2").graph;
  const TensorInfo& info = g.value(g.inputs()[0]).type.tensorInfo;
  REQUIRE(info.rank() == 3);
  CHECK_FALSE((*info.shape)[0].symbol.empty());
  CHECK((*info.shape)[2] == Dim(8));
  CHECK(g.value(g.returns()[0].valueId()).type.tensorInfo.rank() == 4);
}

TEST_CASE("lists' elements and several outputs are values of their own, results keep their structure") {
  const Graph g = imported("pair.pt2").graph;
  CHECK(count(g, "prim.getitem") == 2);
  const Node* topk = first(g, "aten.topk.default");
  REQUIRE(topk);
  CHECK(topk->outputs.size() == 2);
  REQUIRE(g.returns()[0].items());
  const auto* dict = (*g.returns()[0].items())[0].as<Argument::Dict>();
  REQUIRE(dict);
  CHECK(dict->items[1].first == Argument("values"));
  CHECK(dict->items[1].second == Argument(topk->outputs[0]));
}

TEST_CASE("nodes from FX remember how FX spelled them") {
  const Graph g = imported("net.fx").graph;
  const Node* linear = first(g, "aten.linear.default");
  REQUIRE(linear);
  REQUIRE(linear->origin);
  CHECK(linear->origin->opcode == "call_module");
  CHECK(linear->origin->target == "layers.0.fc1");
  const Node* gelu = first(g, "aten.gelu.default");
  REQUIRE(gelu);
  REQUIRE(gelu->origin);
  CHECK(gelu->origin->opcode == "call_function");
  CHECK(gelu->origin->args == std::vector<Argument>{Argument(linear->outputs[0])});
}
