#include "core/training/halves.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/calls/written_arguments.h"
#include "core/ir/declaration_order.h"
#include "core/ir/verify.h"

namespace graft {
namespace {

// Copies a part of one graph into a new one. Values come along where something asks for them.
class Copying {
 public:
  explicit Copying(const Graph& from) : from_(from) {
    to_.name = from.name;
    for (const Symbol& s : from.symbols()) to_.setSymbol(s);
  }

  void addInput(ValueId v) { map_[v] = to_.addInput(from_.value(v).name, from_.value(v).type); }
  bool has(ValueId v) const { return map_.contains(v); }

  ValueId mapped(ValueId v) {
    if (const auto it = map_.find(v); it != map_.end()) return it->second;
    const Value& value = from_.value(v);
    assert(value.kind == Value::Kind::Weight);
    const ValueId made = to_.addWeight(value.path, value.type, value.data, value.isBuffer);
    to_.mutableWeight(made).isConstant = value.isConstant;
    to_.mutableWeight(made).isFrozen = value.isFrozen;
    return map_[v] = made;
  }
  Argument argument(Argument a) {
    a.forEachValueMutable([&](ValueId& v) { v = mapped(v); });
    return a;
  }

  void node(NodeId id) {
    const Node& n = from_.node(id);
    std::vector<Argument> args;
    for (const Argument& a : n.args) args.push_back(argument(a));
    auto kwargs = n.kwargs;
    for (auto& [key, a] : kwargs) a = argument(a);
    const NodeId made = to_.append(to_.root(), n.op, std::move(args), n.name);
    if (!kwargs.empty()) to_.setKeywordArguments(made, std::move(kwargs));
    while (to_.node(made).outputs.size() < n.outputs.size()) to_.addOutput(made, n.name, Type::any());
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      const ValueId v = to_.node(made).outputs[o];
      to_.setType(v, from_.value(n.outputs[o]).type);
      to_.rename(v, from_.value(n.outputs[o]).name);
      map_[n.outputs[o]] = v;
    }
    if (n.module) to_.setModule(made, module(n.module));
    if (const SourceLocation* at = from_.sourceOf(n)) to_.setSource(made, to_.addSource(*at));
  }

  /// A copy of the value's elements: what stands in its place may be overwritten.
  ValueId clone(ValueId v, const OperatorRef& op) {
    const NodeId made = to_.append(to_.root(), op, {Argument(mapped(v)), Argument()}, from_.value(v).name + "_kept");
    to_.setType(to_.output(made), from_.value(v).type);
    return to_.output(made);
  }

  Result<Graph> finish(std::vector<Argument> returns) {
    to_.setReturns(to_.root(), {returns.size() == 1 ? std::move(returns[0]) : Argument::tuple(std::move(returns))});
    orderDeclarations(to_);
    if (Status s = verify(to_); !s) return s.error();
    return std::move(to_);
  }

 private:
  ModuleCallId module(ModuleCallId id) {
    if (const auto it = modules_.find(id); it != modules_.end()) return it->second;
    const ModuleCall& call = from_.moduleCall(id);
    const ModuleCallId parent = call.parent ? module(call.parent) : ModuleCallId();
    const ModuleCallId made = to_.addModuleCall(parent, call.path, call.type);
    to_.mutableModuleCall(made).constructor = call.constructor;
    return modules_[id] = made;
  }

  const Graph& from_;
  Graph to_;
  std::unordered_map<ValueId, ValueId> map_;
  std::unordered_map<ModuleCallId, ModuleCallId> modules_;
};

using Returns = std::vector<JointGraph::Returned>;

/// The nodes that `values` need, but for those that make what `isThere` holds, in the joint graph's order.
std::vector<NodeId> nodesFor(const JointGraph& joint, const std::vector<ValueId>& values,
                             const std::function<bool(ValueId)>& isThere) {
  std::unordered_set<NodeId> found;
  std::vector<NodeId> open;
  const auto need = [&](ValueId v) {
    const NodeId by = joint.graph().value(v).producer;
    if (by && !isThere(v) && found.insert(by).second) open.push_back(by);
  };
  for (ValueId v : values) need(v);
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    for (ValueId v : joint.operands(n)) need(v);
  }
  std::vector<NodeId> out(found.begin(), found.end());
  std::sort(out.begin(), out.end(), [&](NodeId a, NodeId b) { return joint.place(a) < joint.place(b); });
  return out;
}

/// Whether the value may lie in the memory of an input or a buffer that the forward pass overwrites.
bool mayBeOverwritten(const JointGraph& joint, ValueId v) {
  using enum OperatorFact;
  const Graph& g = joint.graph();
  while (const NodeId by = g.value(v).producer) {
    const Node& n = g.node(by);
    if ((!n.op->is(View | Reshape | Identity | MayView) && !mayReturnArgument(n)) || n.args.empty() ||
        !n.args[0].isValue())
      return false;
    v = n.args[0].valueId();
  }
  return joint.isMutated(v);
}

std::vector<ValueId> valuesOf(const Returns& returns) {
  std::vector<ValueId> out;
  for (const auto& r : returns) r.value.forEachValue([&](ValueId v) { out.push_back(v); });
  return out;
}

Result<Half> forwardHalf(const JointGraph& joint, const Cut& cut, const OperatorSet& operators) {
  const Graph& g = joint.graph();
  Copying copy(g);
  Half half;
  half.signature.parameters = joint.signature().parameters;
  for (ValueId v : g.inputs())
    if (joint.isForward(v)) copy.addInput(v);
  std::vector<ValueId> wanted = valuesOf(joint.results());
  for (const Saved& s : cut.saved) wanted.push_back(s.value);
  for (NodeId n : nodesFor(joint, wanted, [](ValueId) { return false; })) copy.node(n);
  std::vector<Argument> returns;
  for (const auto& [role, value] : joint.results()) {
    returns.push_back(copy.argument(value));
    half.signature.returns.push_back(role);
  }
  for (const Saved& s : cut.saved) {
    ValueId kept = copy.mapped(s.value);
    if (mayBeOverwritten(joint, s.value)) {
      const OperatorRef clone = operators.find("aten.clone.default");
      if (!clone) return internalError("there is no aten.clone.default");
      kept = copy.clone(s.value, clone);
    }
    returns.emplace_back(kept);
    half.signature.returns.push_back({ReturnedRole::Kind::Saved, g.value(s.value).name});
  }
  auto graph = copy.finish(std::move(returns));
  if (!graph) return graph.error();
  half.graph = std::move(*graph);
  return half;
}

Result<Half> backwardHalf(const JointGraph& joint, const Cut& cut) {
  const Graph& g = joint.graph();
  Copying copy(g);
  Half half;
  for (const Saved& s : cut.saved) copy.addInput(s.value);
  const std::vector<ValueId> wanted = valuesOf(joint.gradients());
  const auto isThere = [&](ValueId v) { return copy.has(v); };
  const std::vector<NodeId> nodes = nodesFor(joint, wanted, isThere);
  // Parameters come as inputs where the joint graph has them so.
  std::unordered_set<ValueId> read(wanted.begin(), wanted.end());
  for (NodeId n : nodes)
    for (ValueId v : joint.operands(n)) read.insert(v);
  for (ValueId v : g.inputs()) {
    if (!joint.isForward(v) || copy.has(v) || !read.contains(v)) continue;
    copy.addInput(v);
    half.signature.parameters.push_back(g.value(v).name);
  }
  for (ValueId v : g.inputs())
    if (!joint.isForward(v)) {
      copy.addInput(v);
      half.signature.tangents.push_back(g.value(v).name);
    }
  std::unordered_set<NodeId> done;
  for (NodeId n : nodes) {
    if (joint.isForward(n)) continue;
    for (NodeId again : nodesFor(joint, joint.operands(n), isThere))
      if (done.insert(again).second) copy.node(again);
    if (done.insert(n).second) copy.node(n);
  }
  for (NodeId n : nodes)  // what a gradient is made of without any tangent
    if (done.insert(n).second) copy.node(n);
  std::vector<Argument> returns;
  for (const auto& [role, value] : joint.gradients()) {
    returns.push_back(copy.argument(value));
    half.signature.returns.push_back(role);
  }
  auto graph = copy.finish(std::move(returns));
  if (!graph) return graph.error();
  half.graph = std::move(*graph);
  return half;
}

// Bytes alive, by the value in the joint graph whose memory they are.
class Alive {
 public:
  void add(ValueId storage, size_t bytes) {
    if (held_.emplace(storage, bytes).second) now_ += bytes;
  }
  void drop(ValueId storage) {
    const auto it = held_.find(storage);
    if (it == held_.end()) return;
    now_ -= it->second;
    held_.erase(it);
  }
  size_t now() const { return now_; }

 private:
  std::unordered_map<ValueId, size_t> held_;
  size_t now_ = 0;
};

}  // namespace

std::vector<LiveBytes> liveBytes(const Graph& half, const JointGraph& joint) {
  using enum OperatorFact;
  const std::vector<NodeId> order = half.order(half.root());
  // In the half's own ids: the value whose memory each value lies in, and the last node that reads that.
  std::vector<ValueId> storage(half.valueBound());
  std::vector<size_t> lastUse(half.valueBound(), 0), bytes(half.valueBound(), 0);
  for (ValueId v : half.inputs()) storage[v.index] = v;
  for (ValueId v : half.weights()) storage[v.index] = v;
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& n = half.node(order[i]);
    ValueId first;
    const auto read = [&](ValueId v) {
      first = first ? first : v;
      lastUse[storage[v.index].index] = i;
    };
    for (const Argument& a : n.args) a.forEachValue(read);
    for (const auto& [name, a] : n.kwargs) a.forEachValue(read);
    const bool isView = first && (n.op->is(View | Reshape | Identity | Splits) || n.op->name == "prim.getitem");
    for (ValueId v : n.outputs) {
      storage[v.index] = isView ? storage[first.index] : v;
      if (isView) continue;
      lastUse[v.index] = i;
      const ValueId was = joint.graph().findValue(half.value(v).name);
      bytes[v.index] = joint.bytes(was ? was : joint.graph().findValue(half.value(first).name));
    }
  }
  for (const Argument& a : half.returns())
    a.forEachValue([&](ValueId v) { lastUse[storage[v.index].index] = order.size(); });
  std::vector<std::vector<ValueId>> dying(order.size() + 1);
  for (const NodeId n : order)
    for (ValueId v : half.node(n).outputs)
      if (storage[v.index] == v) dying[lastUse[v.index]].push_back(v);
  Alive alive;
  std::vector<LiveBytes> out;
  for (size_t i = 0; i < order.size(); ++i) {
    for (ValueId v : half.node(order[i]).outputs)
      if (storage[v.index] == v) alive.add(v, bytes[v.index]);
    out.push_back({order[i], alive.now()});
    for (ValueId v : dying[i]) alive.drop(v);
  }
  return out;
}

size_t mostAlive(const std::vector<LiveBytes>& live) {
  size_t most = 0;
  for (const LiveBytes& l : live) most = std::max(most, l.bytes);
  return most;
}

Result<Halves> splitJoint(const JointGraph& joint, const Cut& cut, const OperatorSet& operators) {
  auto forward = forwardHalf(joint, cut, operators);
  if (!forward) return forward.error();
  auto backward = backwardHalf(joint, cut);
  if (!backward) return backward.error();
  return Halves{std::move(*forward), std::move(*backward)};
}

}  // namespace graft
