#include "matcher/internal/graph_index.h"

#include <algorithm>
#include <array>

#include "core/ir/normal_form.h"

namespace graft {
namespace {

bool endsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

bool writesAnything(const Operator& op) {
  if (op.writes()) return true;
  return !op.hasSchema && !isStructural(op) && !isGuard(op);
}

// A dropout that is switched off draws nothing.
bool drawsRandomly(const Node& n) {
  if (!n.op->random) return false;
  for (std::string_view flag : {"train", "training"})
    if (const Argument* a = n.findArgument(flag); a && a->as<bool>() && !*a->as<bool>()) return false;
  for (std::string_view chance : {"p", "dropout_p"})
    if (const Argument* a = n.findArgument(chance); a && a->number() && *a->number() == 0.0) return false;
  return true;
}

}  // namespace

bool isStructural(const Operator& op) {
  static constexpr std::array<std::string_view, 12> names{
      "prim.If",         "prim.Loop",           "prim.getitem",       "prim.TupleUnpack",
      "prim.ListUnpack", "prim.TupleConstruct", "prim.ListConstruct", "prim.TupleIndex",
      "prim.Constant",   "prim.NumToTensor",    "prim.DictConstruct", "_operator.getitem"};
  return std::any_of(names.begin(), names.end(), [&](std::string_view n) {
    return op.name == n || (op.name.starts_with(n) && op.name.size() > n.size() && op.name[n.size()] == '.');
  });
}

bool isGuard(const Operator& op) {
  const std::string_view base = op.baseName();
  return base == "_assert_tensor_metadata" || base == "_assert_scalar" || base.starts_with("sym_constrain_range");
}

GraphIndex::GraphIndex(const Graph& g) : graph(g), order(g.order()) {
  number();
  findRegions();
  findMemory();
  findEffects();
  findWeightLike();
  for (NodeId id : order)
    if (effective[id.index]) byOperator_[opOf[id.index]].push_back(id);
  for (NodeId id : order)
    if (random[id.index] && effective[id.index]) randoms.push_back(id);
}

void GraphIndex::number() {
  position.assign(graph.nodeBound(), none);
  opOf.assign(graph.nodeBound(), none);
  random.assign(graph.nodeBound(), 0);
  std::unordered_map<const Operator*, uint32_t> known;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const Node& n = graph.node(order[i]);
    position[n.id.index] = i;
    auto [it, fresh] = known.try_emplace(n.op.get(), 0);
    if (fresh) {
      const auto [at, added] = operatorNumbers_.try_emplace(std::string(canonicalOperator(n.op->name)),
                                                            static_cast<uint32_t>(names_.size()));
      if (added) names_.push_back(at->first);
      it->second = at->second;
    }
    opOf[n.id.index] = it->second;
    random[n.id.index] = drawsRandomly(n);
    if (writesAnything(*n.op)) writers.push_back(n.id);
  }
  byOperator_.resize(names_.size());
}

uint32_t GraphIndex::findOperator(std::string_view name) const {
  const auto it = operatorNumbers_.find(std::string(canonicalOperator(name)));
  return it == operatorNumbers_.end() ? none : it->second;
}

const std::vector<NodeId>& GraphIndex::nodesOf(uint32_t op) const {
  static const std::vector<NodeId> empty;
  return op == none ? empty : byOperator_[op];
}

void GraphIndex::findEffects() {
  effective.assign(graph.nodeBound(), 0);
  std::vector<NodeId> work;
  const auto mark = [&](NodeId id) {
    if (id && !effective[id.index]) {
      effective[id.index] = 1;
      work.push_back(id);
    }
  };
  const auto use = [&](ValueId v) {
    const Value& value = graph.value(v);
    mark(value.producer);
    if (value.kind == Value::Kind::BlockParameter) mark(graph.block(value.block).owner);
  };
  for (const Argument& a : graph.returns()) a.forEachValue(use);
  for (NodeId id : order) {
    const Operator& op = *graph.node(id).op;
    if (isGuard(op) || isStructural(op)) continue;
    if (op.sideEffects || writesAnything(op) || (op.random && random[id.index])) mark(id);
  }
  while (!work.empty()) {
    const Node& n = graph.node(work.back());
    work.pop_back();
    for (const Argument& a : n.args) a.forEachValue(use);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
    for (BlockId b : n.blocks)
      for (const Argument& a : graph.block(b).returns) a.forEachValue(use);
    mark(graph.block(n.parent).owner);
  }
}

void GraphIndex::findWeightLike() {
  weightLike.assign(graph.valueBound(), 0);
  for (ValueId w : graph.weights()) weightLike[w.index] = 1;
  // A weight that is written to is state, not a constant.
  for (ValueId w : graph.weights())
    if (isWritten(memoryOf(w))) weightLike[w.index] = 0;
  for (NodeId id : order) {
    const Node& n = graph.node(id);
    if (!n.op->pure() || !n.blocks.empty()) continue;
    bool constant = true, any = false;
    const auto use = [&](ValueId v) {
      any = true;
      constant = constant && weightLike[v.index];
    };
    for (const Argument& a : n.args) a.forEachValue(use);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
    if (!constant || !any) continue;
    for (ValueId o : n.outputs)
      if (!isWritten(memoryOf(o))) weightLike[o.index] = 1;
  }
}

// Each entry into an autocast or grad-mode region starts a new number; leaving it returns to the one outside.
void GraphIndex::findRegions() {
  region.assign(graph.nodeBound(), 0);
  std::vector<std::vector<uint32_t>> stacks(graph.blockBound());
  std::vector<uint32_t> current(graph.blockBound());
  uint32_t next = static_cast<uint32_t>(graph.blockBound());
  for (uint32_t b = 0; b < graph.blockBound(); ++b) current[b] = b;
  for (NodeId id : order) {
    const Node& n = graph.node(id);
    const uint32_t b = n.parent.index;
    const std::string_view base = n.op->baseName(), packet = n.op->packetName();
    const bool enters = packet == "prim.Enter" || endsWith(base, "_enter_autocast") || base == "_enter_inference_mode";
    const bool leaves = packet == "prim.Exit" || endsWith(base, "_exit_autocast") || base == "_exit_inference_mode";
    if (leaves && !stacks[b].empty()) {
      current[b] = stacks[b].back();
      stacks[b].pop_back();
    }
    region[id.index] = current[b];
    if (enters) stacks[b].push_back(current[b]);
    if (enters || base == "_set_grad_enabled" || base == "set_autocast_enabled") current[b] = next++;
  }
}

std::vector<ValueId> GraphIndex::writtenValues(const Node& n) const {
  std::vector<ValueId> out;
  const auto add = [&](ValueId v) { out.push_back(v); };
  for (size_t i = 0; i < n.args.size(); ++i)
    if (!n.op->hasSchema || (i < n.op->parameters.size() && n.op->parameters[i].written)) n.args[i].forEachValue(add);
  if (!n.op->hasSchema)
    for (const auto& [key, a] : n.kwargs) a.forEachValue(add);
  return out;
}

uint32_t GraphIndex::root(uint32_t v) const {
  while (memory_[v] != v) v = memory_[v] = memory_[memory_[v]];
  return v;
}
uint32_t GraphIndex::memoryOf(ValueId v) const { return memory_.empty() ? v.index : root(v.index); }
void GraphIndex::unite(ValueId a, ValueId b) { memory_[root(a.index)] = root(b.index); }

void GraphIndex::findMemory() {
  visibleMemory_.assign(graph.valueBound(), 0);
  writtenMemory_.assign(graph.valueBound(), 0);
  if (writers.empty()) return;
  memory_.resize(graph.valueBound());
  for (uint32_t v = 0; v < memory_.size(); ++v) memory_[v] = v;
  const auto uniteAll = [&](const Argument& a, ValueId out) { a.forEachValue([&](ValueId v) { unite(v, out); }); };
  for (NodeId id : order) {
    const Node& n = graph.node(id);
    if (!n.op->hasSchema || isStructural(*n.op)) {
      for (ValueId out : n.outputs) {
        for (const Argument& a : n.args) uniteAll(a, out);
        for (const auto& [key, a] : n.kwargs) uniteAll(a, out);
        for (BlockId b : n.blocks)
          for (const Argument& a : graph.block(b).returns) uniteAll(a, out);
      }
      for (BlockId b : n.blocks)
        for (ValueId p : graph.block(b).parameters)
          for (const Argument& a : n.args) uniteAll(a, p);
      continue;
    }
    if (!n.op->aliases()) continue;
    for (size_t o = 0; o < n.outputs.size() && o < n.op->returns.size(); ++o) {
      const std::string& set = n.op->returns[o].aliasSet;
      for (size_t i = 0; !set.empty() && i < n.args.size() && i < n.op->parameters.size(); ++i)
        if (n.op->parameters[i].aliasSet == set || (set == "*" && !n.op->parameters[i].aliasSet.empty()))
          uniteAll(n.args[i], n.outputs[o]);
    }
  }
  for (ValueId v : graph.inputs()) visibleMemory_[root(v.index)] = 1;
  for (ValueId v : graph.weights()) visibleMemory_[root(v.index)] = 1;
  for (NodeId id : writers)
    for (ValueId v : writtenValues(graph.node(id))) writtenMemory_[root(v.index)] = 1;
}

const std::vector<NodeId>& GraphIndex::nodesIn(ModuleCallId call) const {
  if (moduleNodes_.empty()) {
    moduleNodes_.resize(graph.moduleCalls().size());
    for (NodeId id : order)
      for (ModuleCallId m = graph.node(id).module; m; m = graph.moduleCall(m).parent)
        moduleNodes_[m.index].push_back(id);
  }
  return moduleNodes_[call.index];
}

NodeId GraphIndex::inBlock(NodeId node, BlockId block) const {
  while (node && graph.node(node).parent != block) node = graph.block(graph.node(node).parent).owner;
  return node;
}

}  // namespace graft
