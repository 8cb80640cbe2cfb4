#include "mutations.h"

#include <algorithm>
#include <functional>

namespace graft::test {
namespace {

template <class T>
bool contains(const std::vector<T>& v, const T& x) {
  return std::find(v.begin(), v.end(), x) != v.end();
}

/// Another literal of the same kind; none where there is no such thing.
std::optional<Argument> another(const Argument& a) {
  if (const auto* i = a.as<int64_t>()) return Argument(*i == 0 ? int64_t{1} : *i == -1 ? int64_t{0} : *i + 1);
  if (const auto* d = a.as<double>()) return Argument(*d * 2 + 1);
  if (const auto* b = a.as<bool>()) return Argument(!*b);
  if (a.as<std::string>()) return Argument("other");
  if (const auto* t = a.as<DType>()) return Argument(*t == DType::Float64 ? DType::Float16 : DType::Float64);
  if (a.items() && !a.items()->empty()) {
    auto first = another(a.items()->front());
    if (!first) return std::nullopt;
    std::vector<Argument> items = *a.items();
    items.front() = *first;
    return Argument::list(std::move(items));
  }
  return std::nullopt;
}

class Breaker {
 public:
  Breaker(const Graph& g, const Rule& r, const Match& m, const OperatorSet& ops)
      : g_(g), rule_(r), match_(m), ops_(ops) {
    for (NodeId p : r.pattern.order())
      if (p.index < m.nodeOf.size() && m.nodeOf[p.index]) pairs_.emplace_back(p, m.nodeOf[p.index]);
    std::sort(pairs_.begin(), pairs_.end(), [&](auto& a, auto& b) { return g.isBefore(a.second, b.second); });
    for (const Argument& a : r.pattern.returns())
      a.forEachValue([&](ValueId v) {
        const Argument& bound = m.bindings[v.index];
        if (bound.isValue()) returned_.push_back(bound.valueId());
      });
  }

  std::vector<Mutation> run() {
    for (const auto& [p, n] : pairs_) {
      literals(p, n);
      otherOperator(p, n);
      missing(p, n);
      swapped(p, n);
      cutEdges(p, n);
      if (!contains(returned_, g_.node(n).outputs[0])) {
        inserted(p, n);
        otherUser(p, n);
        graphOutput(p, n);
      }
    }
    weightsFromOutside();
    constantsFromOutside();
    otherTypes();
    writeBetween();
    otherRegion();
    return std::move(out_);
  }

 private:
  Mutation& start(std::string what, std::vector<Reason> reasons, std::vector<NodeId> at, std::vector<NodeId> pattern) {
    out_.push_back({std::move(what), g_, std::move(at), std::move(pattern), std::move(reasons), ""});
    return out_.back();
  }
  std::string name(NodeId n) const { return std::string(g_.node(n).op->baseName()); }
  NodeId patternOf(NodeId n) const {
    for (const auto& [p, g] : pairs_)
      if (g == n) return p;
    return {};
  }
  NodeId add(Graph& g, NodeId after, const char* op, std::vector<Argument> args, const Type& type) const {
    const OperatorRef ref = ops_.find(op);
    while (args.size() < ref->parameters.size())
      args.push_back(ref->parameters[args.size()].defaultValue.value_or(Argument()));
    const NodeId made = g.insertAfter(after, ref, std::move(args), "mutant");
    g.setType(g.node(made).outputs[0], type);
    return made;
  }
  void addReturn(Graph& g, ValueId v) const {
    std::vector<Argument> returns(g.returns().begin(), g.returns().end());
    returns.emplace_back(v);
    g.setReturns(g.root(), std::move(returns));
  }
  std::vector<ValueId> valueArguments(NodeId n) const {
    std::vector<ValueId> out;
    for (const Argument& a : g_.node(n).args)
      if (a.isValue()) out.push_back(a.valueId());
    return out;
  }

  void literals(NodeId p, NodeId n) {
    const Node &pn = rule_.pattern.node(p), &gn = g_.node(n);
    if (pn.op->name != gn.op->name) return;
    for (size_t k = 0; k < std::min({pn.args.size(), gn.args.size(), gn.op->parameters.size()}); ++k) {
      if (pn.args[k].isValue() || gn.args[k].isValue() || pn.args[k].as<Named>()) continue;
      const auto changed = another(gn.args[k]);
      if (!changed) continue;
      const std::string& parameter = gn.op->parameters[k].name;
      Mutation& m = start(name(n) + "." + parameter, {Reason::Literal, Reason::Arity, Reason::Rank}, {n}, {p});
      m.graph.setArgument(n, k, *changed);
      if (name(n) != "transpose") m.parameter = parameter;  // either of its two dimensions may be named
    }
  }

  void otherOperator(NodeId p, NodeId n) {
    const auto values = valueArguments(n);
    if (values.empty() || g_.node(n).outputs.size() != 1 || pairs_.size() == 1) return;  // or nothing would be left
    const ValueId old = g_.node(n).outputs[0];
    Mutation& m = start("another operator for " + name(n), {Reason::Operator, Reason::Missing}, {}, {p});
    std::vector<Argument> args{Argument(values[0])};
    if (values.size() > 1) args.emplace_back(values[1]);
    const NodeId made =
        add(m.graph, n, values.size() > 1 ? "aten.fmod.Tensor" : "aten.erfc.default", args, g_.value(old).type);
    m.graph.replaceAllUses(old, m.graph.node(made).outputs[0]);
    m.graph.erase(n);
    m.keepsNodes = false;
    m.at = {made};
  }

  void missing(NodeId p, NodeId n) {
    auto values = valueArguments(n);
    if (values.empty() || g_.node(n).outputs.size() != 1) return;
    // What the match computes stays, so that there is something left to see: of y + linear(x) the product.
    std::stable_partition(values.begin(), values.end(), [&](ValueId v) {
      const NodeId by = g_.value(v).producer;
      return by && patternOf(by);
    });
    Mutation& m = start("no " + name(n), {Reason::Missing, Reason::Operator}, {}, {p});
    // Seen from what stands in its place, from its users, or, of two like it in a row, from the other.
    if (const NodeId by = g_.value(values[0]).producer) m.at.push_back(by);
    for (NodeId u : g_.value(g_.node(n).outputs[0]).users) m.at.push_back(u);
    m.graph.replaceAllUses(g_.node(n).outputs[0], values[0]);
    m.graph.erase(n);
    m.keepsNodes = false;
    if (m.graph.returns().size() == 1 && m.graph.returns()[0] == Argument(values[0]) && m.graph.nodeCount() == 0)
      out_.pop_back();  // nothing is left to explain
  }

  void swapped(NodeId p, NodeId n) {
    const Node& node = g_.node(n);
    if (node.args.size() < 2 || !node.args[0].isValue() || !node.args[1].isValue() || node.args[0] == node.args[1])
      return;
    Mutation& m = start("operands of " + name(n) + " swapped", {Reason::Operand, Reason::Weight}, {n}, {p});
    std::vector<Argument> args = node.args;
    std::swap(args[0], args[1]);
    m.graph.setArguments(n, std::move(args));
  }

  // What the node is given comes from an input instead of from the match.
  void cutEdges(NodeId p, NodeId n) {
    for (size_t k = 0; k < g_.node(n).args.size(); ++k) {
      const Argument& a = g_.node(n).args[k];
      if (!a.isValue()) continue;
      const NodeId by = g_.value(a.valueId()).producer;
      const NodeId from = by ? patternOf(by) : NodeId();
      if (!from) continue;
      Mutation& m = start("an input instead of " + name(by) + " for " + name(n),
                          {Reason::Missing, Reason::Operand, Reason::Operator}, {n}, {from, p});
      const ValueId x = m.graph.addInput("other", g_.value(a.valueId()).type);
      m.graph.setArgument(n, k, Argument(x));
      if (m.graph.isUnused(a.valueId())) addReturn(m.graph, a.valueId());
    }
  }

  void inserted(NodeId p, NodeId n) {
    const ValueId v = g_.node(n).outputs[0];
    std::vector<NodeId> near{p};
    for (NodeId u : g_.value(v).users)
      if (patternOf(u)) near.push_back(patternOf(u));
    Mutation& m = start("an operation after " + name(n), {Reason::Operator, Reason::Missing}, {}, near);
    const std::vector<NodeId> users = m.graph.value(v).users;
    const NodeId made = add(m.graph, n, "aten.erfc.default", {Argument(v)}, g_.value(v).type);
    for (NodeId u : users) {
      std::vector<Argument> args = m.graph.node(u).args;
      for (Argument& a : args)
        a.forEachValueMutable([&](ValueId& x) { x = x == v ? m.graph.node(made).outputs[0] : x; });
      m.graph.setArguments(u, std::move(args));
    }
    m.at = {made};
  }

  void otherUser(NodeId p, NodeId n) {
    const ValueId v = g_.node(n).outputs[0];
    Mutation& m = start("another user of " + name(n), {Reason::Escapes}, {n}, {p});
    const NodeId made = m.graph.append(m.graph.root(), ops_.find("aten.erfc.default"), {Argument(v)}, "mutant");
    addReturn(m.graph, m.graph.node(made).outputs[0]);
  }

  void graphOutput(NodeId p, NodeId n) {
    Mutation& m = start(name(n) + " is an output of the graph", {Reason::Escapes}, {n}, {p});
    addReturn(m.graph, g_.node(n).outputs[0]);
  }

  void weightsFromOutside() {
    for (size_t i = 0; i < rule_.parameters.size(); ++i) {
      if (rule_.parameters[i].kind != PatternParameter::Kind::Weight) continue;
      const ValueId p = rule_.pattern.findValue(rule_.parameters[i].name);
      if (!p || !match_.bindings[p.index].isValue()) continue;
      const ValueId w = match_.bindings[p.index].valueId();
      Mutation& m =
          start("the weight " + rule_.parameters[i].name + " is an input", {Reason::Weight}, match_.nodes, {});
      m.graph.replaceAllUses(w, m.graph.addInput("other", g_.value(w).type));
      for (const auto& [pn, n] : pairs_) {  // a bias may be absent
        const Node& node = g_.node(n);
        for (size_t k = 0; k < std::min(node.args.size(), node.op->parameters.size()); ++k) {
          if (node.args[k] != Argument(w) || node.op->parameters[k].type.kind != Type::Kind::Optional) continue;
          Mutation& none = start(name(n) + "." + node.op->parameters[k].name + " is None",
                                 {Reason::Weight, Reason::ConstantKind, Reason::Literal, Reason::Operand}, {n}, {pn});
          none.parameter = node.op->parameters[k].name;
          none.graph.setArgument(n, k, Argument());
        }
      }
    }
  }

  void constantsFromOutside() {
    for (const PatternParameter& parameter : rule_.parameters) {
      if (!parameter.isConstant()) continue;
      const ValueId p = rule_.pattern.findValue(parameter.name);
      if (!p) continue;
      for (const auto& [pn, n] : pairs_) {
        const Node &node = g_.node(n), &patternNode = rule_.pattern.node(pn);
        for (size_t k = 0; k < std::min(node.args.size(), patternNode.args.size()); ++k) {
          if (patternNode.args[k] != Argument(p) || node.args[k].isValue() || node.args[k].items()) continue;
          Mutation& m = start("the constant " + parameter.name + " is an input",
                              {Reason::ConstantKind, Reason::Operand}, {n}, {pn});
          m.graph.setArgument(n, k, Argument(m.graph.addInput("other", Type::tensor(DType::Float32, {}))));
        }
      }
    }
  }

  // Other ranks and dtypes of what flows in: conditions notice, or calculated shapes.
  void otherTypes() {
    if (!rule_.where) return;
    for (const PatternParameter& parameter : rule_.parameters) {
      if (parameter.isConstant()) continue;
      const ValueId p = rule_.pattern.findValue(parameter.name);
      if (!p || !match_.bindings[p.index].isValue()) continue;
      const ValueId v = match_.bindings[p.index].valueId();
      const TensorInfo& info = g_.value(v).type.tensorInfo;
      if (!info.shape) continue;
      const auto with = [&](const char* what, TensorInfo changed) {
        Mutation& m = start("another " + std::string(what) + " of " + parameter.name,
                            {Reason::Where, Reason::Literal, Reason::Rank}, {}, {});
        m.graph.setType(v, Type::tensor(std::move(changed)));
      };
      TensorInfo rank = info, dtype = info, size = info;
      rank.shape->insert(rank.shape->begin(), Dim(3));
      with("rank", rank);
      dtype.dtype = DType::Float16;
      with("dtype", dtype);
      if (size.shape->empty()) continue;
      size.shape->front() = Dim(77);
      with("size", size);
    }
  }

  void writeBetween() {
    if (pairs_.size() < 2) return;
    for (const PatternParameter& parameter : rule_.parameters) {
      const ValueId p = rule_.pattern.findValue(parameter.name);
      if (parameter.isConstant() || !p || !match_.bindings[p.index].isValue()) continue;
      const ValueId v = match_.bindings[p.index].valueId();
      if (!g_.isInput(v) || parameter.kind == PatternParameter::Kind::Weight) continue;
      Mutation& m = start("a write to " + parameter.name + " in between", {Reason::Alias}, {}, {});
      add(m.graph, pairs_.front().second, "aten.relu_.default", {Argument(v)}, g_.value(v).type);
      return;
    }
  }

  void otherRegion() {
    if (pairs_.size() < 2) return;
    Mutation& m = start("autocast begins in between", {Reason::Region}, {}, {});
    const NodeId made = m.graph.insertAfter(pairs_.front().second, unknownOperator("torch._enter_autocast"),
                                            {Argument("cuda")}, "mutant");
    m.graph.addOutput(made, "mutant", Type::any());
  }

  const Graph& g_;
  const Rule& rule_;
  const Match& match_;
  const OperatorSet& ops_;
  std::vector<std::pair<NodeId, NodeId>> pairs_;  // pattern, graph; in the graph's order
  std::vector<ValueId> returned_;
  std::vector<Mutation> out_;
};

}  // namespace

bool Mutation::isNamedBy(const NearMiss& miss) const {
  const bool place = (at.empty() && pattern.empty()) || (miss.at && contains(at, miss.at)) ||
                     (miss.patternNode && contains(pattern, miss.patternNode));
  return place && contains(reasons, miss.reason) && (parameter.empty() || miss.parameter == parameter);
}

std::vector<Mutation> mutationsOf(const Graph& g, const Rule& r, const Match& m, const OperatorSet& ops) {
  return Breaker(g, r, m, ops).run();
}

}  // namespace graft::test
