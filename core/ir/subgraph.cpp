#include "core/ir/subgraph.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace graft {
namespace {

class Extraction {
 public:
  explicit Extraction(const Graph& g) : from_(g) {}

  Result<Subgraph> run(std::vector<NodeId> nodes, const std::vector<ValueId>& outputs, const std::vector<NodeId>& also,
                       const std::vector<ValueId>& inputsFirst) {
    allowed_.insert(nodes.begin(), nodes.end());
    allowed_.insert(also.begin(), also.end());
    for (ValueId v : inputsFirst) addInput(v);
    for (ValueId v : outputs) need(v);
    for (NodeId n : nodes)
      if (!from_.node(n).op->pure()) needNode(n);
    // In the graph's order, so that writes stay where they are.
    std::vector<NodeId> order(needed_.begin(), needed_.end());
    std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) {
      const BlockId p = from_.node(a).parent, q = from_.node(b).parent;
      return p == q ? from_.isBefore(a, b) : p < q;
    });
    for (NodeId n : order) copyNode(n);
    if (problem_) return *problem_;
    std::vector<Argument> returns;
    for (ValueId v : outputs) returns.push_back(argument(Argument(v)));
    if (problem_) return *problem_;
    to_.graph.setReturns(to_.graph.root(), std::move(returns));
    return std::move(to_);
  }

 private:
  void need(ValueId v) {
    if (const NodeId by = from_.value(v).producer; by && allowed_.contains(by)) needNode(by);
  }
  void needNode(NodeId n) {
    if (!needed_.insert(n).second) return;
    for (const Argument& a : from_.node(n).args) a.forEachValue([&](ValueId v) { need(v); });
    for (const auto& [key, a] : from_.node(n).kwargs) a.forEachValue([&](ValueId v) { need(v); });
  }

  ValueId addInput(ValueId v) {
    const ValueId made = to_.graph.addInput("x" + std::to_string(to_.inputs.size()), from_.value(v).type);
    to_.inputs.push_back(v);
    return map_[v] = made;
  }

  ValueId mapped(ValueId v) {
    if (const auto it = map_.find(v); it != map_.end()) return it->second;
    const Value& value = from_.value(v);
    if (value.kind == Value::Kind::Weight) {
      const ValueId made =
          to_.graph.addWeight("w" + std::to_string(weights_++), value.type, value.data, value.isBuffer);
      return map_[v] = made;
    }
    if (dependsOnWeightsAlone(from_, v)) {
      copyNode(value.producer);
      return map_[v];
    }
    return addInput(v);
  }

  Argument argument(Argument a) {
    a.forEachValueMutable([&](ValueId& v) { v = mapped(v); });
    return a;
  }

  void copyNode(NodeId id) {
    const Node& n = from_.node(id);
    if (!n.blocks.empty()) {
      problem_ = badInput("`" + n.name + "` is control flow");
      return;
    }
    std::vector<Argument> args;
    for (const Argument& a : n.args) args.push_back(argument(a));
    auto kwargs = n.kwargs;
    for (auto& [key, a] : kwargs) a = argument(a);
    const NodeId made = to_.graph.append(to_.graph.root(), n.op, std::move(args), "v");
    if (!kwargs.empty()) to_.graph.setKeywordArguments(made, std::move(kwargs));
    while (to_.graph.node(made).outputs.size() < n.outputs.size()) to_.graph.addOutput(made, "v", Type::any());
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const ValueId v = to_.graph.node(made).outputs[o];
      to_.graph.setType(v, from_.value(n.outputs[o]).type);
      map_[n.outputs[o]] = v;
    }
  }

  const Graph& from_;
  std::unordered_set<NodeId> allowed_, needed_;
  std::unordered_map<ValueId, ValueId> map_;
  Subgraph to_;
  size_t weights_ = 0;
  std::optional<Error> problem_;
};

}  // namespace

bool staysAtRunTime(const Value& weight) {
  const size_t last = weight.path.rfind('.') == std::string::npos ? 0 : weight.path.rfind('.');
  return weight.kind == Value::Kind::Weight && weight.path.find(runTimeSuffix, last) != std::string::npos;
}

bool dependsOnWeightsAlone(const Graph& g, ValueId v) {
  constexpr size_t most = 1000;  // what is computed of weights is short: casts, transpositions, concatenations
  std::vector<ValueId> open{v};
  std::unordered_set<ValueId> seen{v};
  while (!open.empty()) {
    const Value& value = g.value(open.back());
    open.pop_back();
    if (value.kind == Value::Kind::Weight) continue;
    if (value.kind != Value::Kind::Output || seen.size() > most) return false;
    const Node& n = g.node(value.producer);
    if (!n.op->pure() || !n.blocks.empty() || !n.kwargs.empty()) return false;
    bool takesValues = false;
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId u) {
        takesValues = true;
        if (seen.insert(u).second) open.push_back(u);
      });
    if (!takesValues) return false;
  }
  return true;
}

Result<Subgraph> extractSubgraph(const Graph& g, std::vector<NodeId> nodes, const std::vector<ValueId>& outputs,
                                 const std::vector<NodeId>& also, const std::vector<ValueId>& inputsFirst) {
  return Extraction(g).run(std::move(nodes), outputs, also, inputsFirst);
}

}  // namespace graft
