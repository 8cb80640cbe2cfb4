// Attempt, part one: which node is matched when, what is bound and undone.
#include "matcher/search/attempt.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// A value with more users than these is one that many layers read: what is above it is kept. Above others it is found
// anew each time, which takes less than keeping it.
constexpr size_t fewUsers = 16;

}  // namespace

Attempt::Attempt(const Plan& plan, const std::vector<uint8_t>& taken, Budget& budget)
    : plan_(plan),
      index_(plan.index),
      graph_(plan.index.graph),
      pattern_(plan.pattern),
      taken_(taken),
      budget_(budget),
      bound_(plan.pattern.valueBound(), nullptr),
      nodeAt_(plan.pattern.nodeBound()),
      moduleAt_(plan.pattern.nodeBound()),
      covered_(plan.index.graph.nodeBound(), 0) {}

bool Attempt::run(ValueId start) {
  undo({0, 0, 0});
  start_ = start;
  budget_.anchorUsed = 0;
  const ValueId root = alone_ ? alone_ : plan_.roots.front();
  tasks_.push_back({root, make(Argument(start)), {}});
  return solve(0);
}

bool Attempt::solve(size_t i) {
  if (!budget_.spend()) return false;
  return i == tasks_.size() ? finish(i) : matchTask(i);
}

bool Attempt::matchTask(size_t i) {
  const ValueId v = tasks_[i].pattern;
  const PlanNode& p = *plan_.producer(v);
  switch (p.kind) {
    case PlanNode::Kind::AnyOf:
      return matchAnyOf(i);
    case PlanNode::Kind::CallModule:
      return matchModule(i);
    case PlanNode::Kind::Meaning:
      deferred_.push_back(tasks_[i]);
      trail_.push_back({Undo::Deferred, 0});
      return solve(i + 1);
    default:
      return matchNode(i);
  }
}

bool Attempt::matchAnyOf(size_t i) {
  const Task t = tasks_[i];
  if (bound_[t.pattern.index]) return *bound_[t.pattern.index] == *t.graph && solve(i + 1);
  const Node& pn = pattern_.node(pattern_.value(t.pattern).producer);
  // Explaining, alternatives that begin with the operator that is here are told of, the others only if there are none.
  const NodeId g = explaining_ && t.graph->isValue() ? graph_.value(t.graph->valueId()).producer : NodeId();
  const auto fits = [&](const Argument& a) { return a.isValue() && mayBegin(a.valueId(), g); };
  const bool choose = g && std::any_of(pn.args.begin(), pn.args.end(), fits);
  for (const Argument& alternative : pn.args) {
    if (choose && !fits(alternative)) continue;
    const Mark m = mark();
    bind(t.pattern, t.graph);
    if (unify(alternative, *t.graph, t.context) && solve(i + 1)) return true;
    undo(m);
  }
  return false;
}

bool Attempt::mayBegin(ValueId pattern, NodeId g) const {
  const PlanNode* p = plan_.producer(pattern);
  if (!p) return false;
  if (p->kind == PlanNode::Kind::Operator || p->kind == PlanNode::Kind::CallFunction) return plan_.accepts(*p, g);
  if (p->kind != PlanNode::Kind::AnyOf) return false;
  const auto& alternatives = pattern_.node(p->id).args;
  return std::any_of(alternatives.begin(), alternatives.end(),
                     [&](const Argument& a) { return a.isValue() && mayBegin(a.valueId(), g); });
}

bool Attempt::finish(size_t i) {
  if (alone_) return true;
  for (ValueId root : plan_.roots)
    if (!bound_[root.index]) return matchRoot(i, root);
  const Mark before = mark();
  for (size_t d = 0; d < deferred_.size(); ++d) bindFromShape(deferred_[d]);
  for (size_t d = 0; d < deferred_.size(); ++d)
    if (!checkDeferred(deferred_[d])) {
      undo(before);
      return false;
    }
  if (!checkConditions()) {
    undo(before);
    return false;
  }
  if (!explaining_) return true;
  record(true);
  undo(before);
  return false;
}

// A returned value that the first one does not reach: look among the users of what is bound already.
bool Attempt::matchRoot(size_t i, ValueId root) {
  const ValueId from = nearestBound(root);
  if (const Places* many = manyPlaces(root, from)) {
    PlaceWalk walk(*many, lastMatched(), taken_);
    bool found = false;
    for (ValueId place; !found && (place = walk.next());) {
      if (covered_[graph_.value(place).producer.index]) continue;
      found = matchRootAt(i, root, place);
      if (budget_.exceeded) break;
    }
    plan_.looked += walk.looked();
    return found;
  }
  for (ValueId place : placesFor(root, from)) {
    if (matchRootAt(i, root, place)) return true;
    if (budget_.exceeded) return false;
  }
  if (explaining_ && misses_.empty()) {
    // Not above what is bound: perhaps beside it, where something on the way is not as the pattern has it.
    size_t tried = 0;
    for (ValueId place : nearest(plan_.valuesOf(*plan_.producer(root), outputOf(root)))) {
      if (++tried > 4) break;
      const Mark m = mark();
      tasks_.push_back({root, make(Argument(place)), {}});
      solve(i);
      undo(m);
    }
    const NodeId pid = pattern_.value(root).producer;
    NodeId named = pid;  // any_of(f(x), …) is told as f
    while (plan_.nodes[named.index].kind == PlanNode::Kind::AnyOf && pattern_.node(named).args[0].isValue() &&
           plan_.producer(pattern_.node(named).args[0].valueId()))
      named = plan_.producer(pattern_.node(named).args[0].valueId())->id;
    forgive({Reason::Missing, named, coveredNodes_.empty() ? NodeId() : coveredNodes_.front(), "",
             wantedOperator(named), "nothing near the rest of the match", "", false});
    record(false);
    misses_.pop_back();
    trail_.pop_back();
  }
  return false;
}

bool Attempt::matchRootAt(size_t i, ValueId root, ValueId place) {
  const Mark m = mark();
  tasks_.push_back({root, make(Argument(place)), {}});
  if (solve(i)) return true;
  undo(m);
  return false;
}

ValueId Attempt::nearestBound(ValueId root) const {
  // Up from something bound that takes part in it: the value with the fewest users, results of matched nodes before
  // parameters, whose users may be anywhere.
  ValueId from;
  std::pair<bool, size_t> fewest;
  for (uint32_t v = 0; v < bound_.size(); ++v) {
    if (!bound_[v] || !bound_[v]->isValue() || !plan_.ancestorsOf(root)[v]) continue;
    const std::pair here(plan_.producer(ValueId(v)) == nullptr, graph_.value(bound_[v]->valueId()).users.size());
    if (from && here >= fewest) continue;
    from = ValueId(v);
    fewest = here;
  }
  return from;
}

std::vector<ValueId> Attempt::placesFor(ValueId root, ValueId from) const {
  if (!from) return nearest(plan_.valuesOf(*plan_.producer(root), outputOf(root)));
  std::vector<ValueId> places;
  plan_.climb(from, bound_[from.index]->valueId(), root, explaining_, places);
  return nearest(std::move(places));
}

const Places* Attempt::manyPlaces(ValueId root, ValueId from) {
  if (explaining_ || !from) return nullptr;
  const ValueId start = bound_[from.index]->valueId();
  if (graph_.value(start).users.size() <= fewUsers) return nullptr;
  const std::tuple key(root, from, start);
  const auto known = places_.find(key);
  if (known != places_.end()) return &known->second;
  std::vector<ValueId> above;
  plan_.climb(from, start, root, false, above);
  std::erase_if(above, [&](ValueId v) { return !graph_.value(v).producer || !standsAlone(root, v); });
  return &places_.try_emplace(key, index_, std::move(above)).first->second;
}

bool Attempt::standsAlone(ValueId root, ValueId place) {
  if (taken_[graph_.value(place).producer.index]) return false;
  if (!apart_) apart_ = std::make_unique<Attempt>(plan_, taken_, budget_);
  apart_->alone_ = root;
  const uint64_t spent = budget_.anchorUsed;  // this counts for the search as a whole, not for one anchor
  const bool before = std::exchange(budget_.exceeded, false);
  const bool fits = apart_->run(place) || budget_.exceeded;
  budget_.anchorUsed = spent;
  budget_.exceeded = budget_.exceeded || before;
  return fits;
}

size_t Attempt::outputOf(ValueId v) const {
  const auto& outputs = pattern_.node(pattern_.value(v).producer).outputs;
  return static_cast<size_t>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin());
}

NodeId Attempt::lastMatched() const {
  NodeId last = coveredNodes_.empty() ? NodeId() : coveredNodes_.front();
  for (ValueId r : plan_.roots)
    if (bound_[r.index] && bound_[r.index]->isValue()) last = graph_.value(bound_[r.index]->valueId()).producer;
  return last;
}

std::vector<ValueId> Attempt::nearest(std::vector<ValueId> out) const {
  // Near the match first: in the same module, then after it, then by distance. So q, k and v of one layer come together
  // and in order.
  const NodeId last = lastMatched();
  const auto key = [&](ValueId v) {
    const NodeId n = graph_.value(v).producer;
    if (!n || !last) return std::tuple(0, true, 0u);
    int depth = 0;
    for (ModuleCallId m = graph_.commonModule(graph_.node(n).module, graph_.node(last).module); m;
         m = graph_.moduleCall(m).parent)
      ++depth;
    const uint32_t a = index_.position[n.index], b = index_.position[last.index];
    return std::tuple(-depth, a < b, a < b ? b - a : a - b);
  };
  std::vector<std::pair<std::tuple<int, bool, uint32_t>, ValueId>> sorted;
  for (ValueId v : out) {
    const NodeId n = graph_.value(v).producer;
    if (n && !taken_[n.index] && !covered_[n.index]) sorted.emplace_back(key(v), v);
  }
  plan_.looked += sorted.size();
  std::sort(sorted.begin(), sorted.end());
  out.clear();
  for (const auto& [k, v] : sorted) out.push_back(v);
  return out;
}

// Bookkeeping
// -----------------------------------------------------------------------------------------------------------------

void Attempt::bind(ValueId v, const Argument* a) {
  bound_[v.index] = a;
  trail_.push_back({Undo::Binding, v.index});
}
void Attempt::map(NodeId p, NodeId g) {
  nodeAt_[p.index] = g;
  trail_.push_back({Undo::Node, p.index});
  if (!covered_[g.index]) cover(g);
}
bool Attempt::cover(NodeId g) {
  if (covered_[g.index]) return false;
  covered_[g.index] = 1;
  coveredNodes_.push_back(g);
  trail_.push_back({Undo::Cover, g.index});
  return true;
}
const Argument* Attempt::make(Argument a) {
  if (madeCount_ == made_.size())
    made_.push_back(std::move(a));
  else
    made_[madeCount_] = std::move(a);
  return &made_[madeCount_++];
}

void Attempt::undo(const Mark& m) {
  while (trail_.size() > m.trail) {
    const Undo u = trail_.back();
    trail_.pop_back();
    switch (u.kind) {
      case Undo::Binding:
        bound_[u.index] = nullptr;
        break;
      case Undo::Node:
        nodeAt_[u.index] = NodeId();
        moduleAt_[u.index] = ModuleCallId();
        break;
      case Undo::Cover:
        covered_[u.index] = 0;
        coveredNodes_.pop_back();
        break;
      case Undo::Deferred:
        deferred_.pop_back();
        break;
      case Undo::Miss:
        misses_.pop_back();
        break;
    }
  }
  tasks_.resize(m.tasks);
  madeCount_ = m.made;
}

Match Attempt::match() const {
  Match out;
  out.bindings.reserve(bound_.size());
  for (const Argument* bound : bound_) {
    if (bound)
      out.bindings.push_back(*bound);
    else
      out.bindings.emplace_back();
  }
  out.nodeOf = nodeAt_;
  out.moduleOf = moduleAt_;
  out.nodes = coveredNodes_;
  std::sort(out.nodes.begin(), out.nodes.end(),
            [&](NodeId a, NodeId b) { return index_.position[a.index] < index_.position[b.index]; });
  out.anchor = graph_.value(start_).producer;
  ModuleCallId common = out.nodes.empty() ? ModuleCallId() : graph_.node(out.nodes.front()).module;
  for (NodeId n : out.nodes) common = graph_.commonModule(common, graph_.node(n).module);
  out.scope = common ? graph_.moduleCall(common).path : "";
  return out;
}

}  // namespace graft
