#include "matcher/search/graph_index.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/ir/calls/written_arguments.h"
#include "core/ir/normal_form.h"

namespace graft {
namespace {

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

enum class RegionRole : uint8_t { None, Enters, Leaves, Changes };

RegionRole regionRole(const Operator& op) {
  const std::string_view base = op.baseName(), packet = op.packetName();
  if (packet == "prim.Enter" || base.ends_with("_enter_autocast") || base == "_enter_inference_mode")
    return RegionRole::Enters;
  if (packet == "prim.Exit" || base.ends_with("_exit_autocast") || base == "_exit_inference_mode")
    return RegionRole::Leaves;
  return base == "_set_grad_enabled" || base == "set_autocast_enabled" ? RegionRole::Changes : RegionRole::None;
}

}  // namespace

bool isStructural(const Operator& op) { return op.is(OperatorFact::Structural); }

bool isGuard(const Operator& op) { return op.is(OperatorFact::Guard); }

GraphIndex::GraphIndex(const Graph& g) : graph(g) {
  number();
  findRegions();
  findMemory();
  findEffects();
  for (NodeId id : order)
    if (effective[id.index]) byOperator_[opOf[id.index]].push_back(id);
  std::erase_if(randoms, [&](NodeId id) { return !effective[id.index]; });
}

GraphIndex::Facts GraphIndex::factsOf(const Operator& op) {
  const auto [at, fresh] =
      operatorNumbers_.try_emplace(std::string(canonicalOperator(op.name)), static_cast<uint32_t>(names_.size()));
  if (fresh) {
    names_.push_back(at->first);
    handsOn_.push_back(op.is(OperatorFact::Identity));
  }
  Facts f;
  f.number = at->second;
  f.random = op.random;
  f.writes = writesAnything(op);
  f.statistics = !f.writes && op.findParameter("running_mean").has_value();
  f.acts = !isGuard(op) && !isStructural(op) && (op.sideEffects || f.writes);
  f.region = regionRole(op) != RegionRole::None;
  f.mayMatter = f.random || f.writes || f.statistics || f.acts || f.region;
  return f;
}

// Each node once and each value once, as they lie in memory: of a large graph it is waiting for that which takes time.
void GraphIndex::number() {
  position.assign(graph.nodeBound(), none);
  opOf.assign(graph.nodeBound(), none);
  order.reserve(graph.nodeCount());
  std::unordered_map<const Operator*, Facts> known;
  std::array<std::pair<const Operator*, const Facts*>, 64> seen{};  // a graph calls few operators: most are here
  const auto add = [&](const Node& n) {
    const Operator* op = n.op.get();
    auto& [seenOp, facts] = seen[reinterpret_cast<uintptr_t>(op) / alignof(std::max_align_t) % seen.size()];
    if (seenOp != op) {
      auto it = known.find(op);
      if (it == known.end()) it = known.emplace(op, factsOf(*op)).first;
      seenOp = op;
      facts = &it->second;
    }
    const Facts& f = *facts;
    position[n.id.index] = static_cast<uint32_t>(order.size());
    order.push_back(n.id);
    opOf[n.id.index] = f.number;
    if (n.outputs.empty()) unused_.push_back(n.id);
    if (!f.mayMatter) return;
    const bool draws = f.random && drawsRandomly(n);
    if (draws) randoms.push_back(n.id);
    const bool keeps = f.statistics && keptStatistics(n)[0];
    if (f.writes || keeps) writers.push_back(n.id);
    if (f.acts || keeps || (draws && !isGuard(*n.op) && !isStructural(*n.op))) acting_.push_back(n.id);
    hasRegions_ = hasRegions_ || f.region;
  };
  if (graph.blockBound() == 1) {
    for (NodeId id = graph.block(graph.root()).first; id; id = graph.node(id).next) add(graph.node(id));
  } else {
    for (NodeId id : graph.order()) add(graph.node(id));
  }
  for (uint32_t v = 0; v < graph.valueBound(); ++v) {
    if (!graph.isUnused(ValueId(v))) continue;
    if (const NodeId producer = graph.value(ValueId(v)).producer) unused_.push_back(producer);
  }
  byOperator_.resize(names_.size());
}

bool GraphIndex::isRandom(NodeId n) const { return drawsRandomly(graph.node(n)); }

uint32_t GraphIndex::findOperator(std::string_view name) const {
  const auto it = operatorNumbers_.find(std::string(canonicalOperator(name)));
  return it == operatorNumbers_.end() ? none : it->second;
}

const std::vector<NodeId>& GraphIndex::nodesOf(uint32_t op) const {
  static const std::vector<NodeId> empty;
  return op == none ? empty : byOperator_[op];
}

// All nodes matter but those that nobody uses, and what only such use. Dead nodes are few, so they are looked for, not
// the others.
void GraphIndex::findEffects() {
  effective.assign(graph.nodeBound(), 0);
  std::vector<uint8_t> keeps(graph.nodeBound(), 0);  // matters in itself, or holds what does
  for (NodeId id : acting_)
    for (NodeId n = id; n && !keeps[n.index]; n = graph.block(graph.node(n).parent).owner) keeps[n.index] = 1;
  std::unordered_map<ValueId, size_t> deadUses;  // of users and returns of blocks
  std::vector<NodeId> work;
  const auto dies = [&](NodeId id) {
    if (!effective[id.index] || keeps[id.index]) return;
    for (ValueId v : graph.node(id).outputs) {
      const Value& value = graph.value(v);
      const size_t uses = value.users.size() + value.returnUses;
      if (uses == 0) continue;
      const auto dead = deadUses.find(v);
      if (dead == deadUses.end() || dead->second < uses) return;
    }
    effective[id.index] = 0;
    work.push_back(id);
  };
  for (NodeId id : order) effective[id.index] = 1;
  for (NodeId id : unused_) dies(id);
  std::vector<ValueId> used;
  while (!work.empty()) {
    const Node& n = graph.node(work.back());
    work.pop_back();
    used.clear();
    const auto use = [&](ValueId v) {
      if (std::find(used.begin(), used.end(), v) == used.end()) used.push_back(v);
    };
    for (const Argument& a : n.args) a.forEachValue(use);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
    for (ValueId v : used) ++deadUses[v];
    for (BlockId b : n.blocks) {
      for (NodeId inner = graph.block(b).first; inner; inner = graph.node(inner).next) {
        if (effective[inner.index]) work.push_back(inner);
        effective[inner.index] = 0;
      }
      for (const Argument& a : graph.block(b).returns)
        a.forEachValue([&](ValueId v) {
          ++deadUses[v];
          used.push_back(v);
        });
    }
    for (ValueId v : used)
      if (graph.value(v).producer) dies(graph.value(v).producer);
  }
}

// Statistics that only their norms read are weights to a rule for these norms: what it misses is that they train.
bool GraphIndex::staysConstant(ValueId weight) const {
  if (!isWritten(memoryOf(weight))) return true;
  const std::vector<NodeId>& users = graph.value(weight).users;
  return std::all_of(users.begin(), users.end(), [&](NodeId n) {
    const auto kept = keptStatistics(graph.node(n));
    return kept[0] == weight || kept[1] == weight;
  });
}

bool GraphIndex::isWeightLike(ValueId v) const {
  const Value& value = graph.value(v);
  if (value.kind == Value::Kind::Weight) return staysConstant(v);
  if (value.kind != Value::Kind::Output) return false;
  if (weightLike_.empty()) findWeightLike();
  return weightLike_[v.index] != 0;
}

void GraphIndex::findWeightLike() const {
  weightLike_.assign(graph.valueBound(), 0);
  // A weight that is written to is state, not a constant.
  for (ValueId w : graph.weights()) weightLike_[w.index] = staysConstant(w);
  for (NodeId id : order) {
    const Node& n = graph.node(id);
    bool constant = true, any = false;
    const auto use = [&](ValueId v) {
      any = true;
      constant = constant && weightLike_[v.index];
    };
    for (const Argument& a : n.args) {
      a.forEachValue(use);
      if (!constant) break;
    }
    if (!constant) continue;
    for (const auto& [key, a] : n.kwargs) a.forEachValue(use);
    if (!constant || !any || !n.op->pure() || !n.blocks.empty()) continue;
    for (ValueId o : n.outputs)
      if (!isWritten(memoryOf(o))) weightLike_[o.index] = 1;
  }
}

// Each entry into an autocast or grad-mode region starts a new number; leaving it returns to the one outside.
void GraphIndex::findRegions() {
  if (!hasRegions_ && graph.blockBound() == 1) return;
  region_.assign(graph.nodeBound(), 0);
  std::vector<std::vector<uint32_t>> stacks(graph.blockBound());
  std::vector<uint32_t> current(graph.blockBound());
  uint32_t next = static_cast<uint32_t>(graph.blockBound());
  for (uint32_t b = 0; b < graph.blockBound(); ++b) current[b] = b;
  for (NodeId id : order) {
    const Node& n = graph.node(id);
    const uint32_t b = n.parent.index;
    const RegionRole role = hasRegions_ ? regionRole(*n.op) : RegionRole::None;
    if (role == RegionRole::Leaves && !stacks[b].empty()) {
      current[b] = stacks[b].back();
      stacks[b].pop_back();
    }
    region_[id.index] = current[b];
    if (role == RegionRole::Enters) stacks[b].push_back(current[b]);
    if (role == RegionRole::Enters || role == RegionRole::Changes) current[b] = next++;
  }
}

std::vector<ValueId> GraphIndex::writtenValues(const Node& n) const {
  std::vector<ValueId> out;
  forEachWritten(graph, n, [&](ValueId v) { out.push_back(v); });
  return out;
}

uint32_t GraphIndex::root(uint32_t v) const {
  while (memory_[v] != v) v = memory_[v] = memory_[memory_[v]];
  return v;
}
uint32_t GraphIndex::memoryOf(ValueId v) const { return v.index < memory_.size() ? root(v.index) : v.index; }
void GraphIndex::unite(ValueId a, ValueId b) { memory_[root(a.index)] = root(b.index); }

void GraphIndex::findMemory() {
  if (writers.empty()) return;
  visibleMemory_.assign(graph.valueBound(), 0);
  writtenMemory_.assign(graph.valueBound(), 0);
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
    if (mayReturnArgument(n))
      for (ValueId out : n.outputs)
        for (const Argument& a : n.args) uniteAll(a, out);
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
