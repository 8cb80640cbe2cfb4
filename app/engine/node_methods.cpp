// The engine's methods about one node: its operator, the Python it came from, its weights.
#include "app/engine/methods.h"
#include "app/json/numbers_json.h"
#include "app/workbench/node.h"

namespace graft {

using nlohmann::json;

const Node& Session::Methods::node(const Graph& g) const {
  const NodeId n = g.findNode(text("node"));
  if (!n) throw RpcError{1, fmt::format("there is no node {}", text("node"))};
  return g.node(n);
}

json Session::Methods::describe() const { return toJson(workbench::describe(node(s.document(params).graph()))); }

json Session::Methods::source() const {
  const Graph& g = s.document(params).graph();
  return toJson(take(workbench::sourceOf(g, node(g))));
}

json Session::Methods::weight() const {
  return toJson(take(workbench::weightNamed(s.document(params).graph(), text("name"))));
}

}  // namespace graft
