#include "core/compile/fusion/product_split.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/lower/lower.h"

namespace graft {
namespace {

/// What `results` need, up to `given`, which becomes an input where it is needed.
struct Part {
  Graph graph;
  std::vector<ProductSplit::Source> inputs;
};

Part partOf(const Graph& g, const std::vector<ValueId>& results, ValueId given) {
  std::unordered_set<ValueId> needed;
  std::unordered_set<NodeId> nodes;
  std::vector<ValueId> todo = results;
  while (!todo.empty()) {
    const ValueId v = todo.back();
    todo.pop_back();
    if (!needed.insert(v).second || v == given) continue;
    const NodeId producer = g.value(v).producer;
    if (!producer || !nodes.insert(producer).second) continue;
    for (const Argument& a : g.node(producer).args) a.forEachValue([&](ValueId read) { todo.push_back(read); });
  }
  Part out;
  out.graph.name = g.name;
  for (const Symbol& s : g.symbols()) out.graph.setSymbol(s);
  std::unordered_map<ValueId, ValueId> now;
  const auto take = [&](ValueId v) { now.emplace(v, out.graph.addInput(g.value(v).name, g.value(v).type)); };
  size_t tensor = 0;
  for (const ValueId v : g.inputs()) {
    if (!g.value(v).type.isTensor()) continue;
    if (needed.contains(v)) {
      take(v);
      out.inputs.push_back({false, tensor});
    }
    ++tensor;
  }
  if (given && needed.contains(given)) {
    take(given);
    out.inputs.push_back({true, 0});
  }
  for (const ValueId v : g.inputs())
    if (!g.value(v).type.isTensor()) take(v);
  for (const NodeId id : g.order()) {
    if (!nodes.contains(id)) continue;
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    for (Argument& a : args) a.forEachValueMutable([&](ValueId& v) { v = now.at(v); });
    const NodeId made = out.graph.append(out.graph.root(), n.op, std::move(args), n.name);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i >= out.graph.node(made).outputs.size()) out.graph.addOutput(made, g.value(n.outputs[i]).name, Type());
      const ValueId v = out.graph.node(made).outputs[i];
      out.graph.setType(v, g.value(n.outputs[i]).type);
      now.emplace(n.outputs[i], v);
    }
  }
  std::vector<Argument> returns;
  for (const ValueId v : results) returns.emplace_back(now.at(v));
  out.graph.setReturns(out.graph.root(), std::move(returns));
  return out;
}

}  // namespace

bool isConvolution(std::string_view op) {
  return op == "aten.conv1d.default" || op == "aten.conv2d.default" || op == "aten.conv3d.default" ||
         op == "graft.conv_bias_add_relu.default";
}

bool isOfLibraries(std::string_view op) { return isConvolution(op) || lower::kindOf(op) == lower::Kind::Product; }

bool holdsProduct(const Graph& group) {
  const std::vector<NodeId> order = group.order();
  return std::any_of(order.begin(), order.end(), [&](NodeId id) { return isOfLibraries(group.node(id).op->name); });
}

NodeId productOf(const Graph& group) {
  NodeId found;
  for (const NodeId id : group.order()) {
    if (!isOfLibraries(group.node(id).op->name)) continue;
    if (found) return {};
    found = id;
  }
  return found;
}

std::optional<ProductSplit> splitProduct(const Graph& group) {
  const NodeId node = productOf(group);
  if (!node) return std::nullopt;
  const ValueId product = group.node(node).outputs.front();
  ProductSplit out;
  std::vector<ValueId> results;
  for (const Argument& a : group.returns()) {
    const ValueId v = a.valueId();
    out.results.push_back(v == product ? std::nullopt : std::optional(results.size()));
    if (v != product) results.push_back(v);
  }
  if (results.empty()) return std::nullopt;
  Part first = partOf(group, {product}, {}), second = partOf(group, results, product);
  out.product = std::move(first.graph);
  out.productInputs = std::move(first.inputs);
  out.rest = std::move(second.graph);
  out.restInputs = std::move(second.inputs);
  return out;
}

}  // namespace graft
