#include "core/training/bans.h"

#include <algorithm>
#include <queue>
#include <set>

namespace graft {
namespace {

bool canFuse(const JointGraph& joint, NodeId n) {
  const Recomputing kind = joint.recomputing(n);
  if (kind == Recomputing::Free || kind == Recomputing::Cheap) return true;
  const Operator& op = *joint.graph().node(n).op;
  if (op.facts->family == OperatorFamily::Normalization) return true;  // with what is before and behind it
  return kind == Recomputing::Never && op.facts->family != OperatorFamily::Unknown &&
         !op.sideEffects;  // a dropout is computed element by element, too
}

/// Whether the backward half reads the node's result from memory in any case: through views, by a kernel that cannot
/// take it in.
bool isMaterializedBackwards(const JointGraph& joint, NodeId id) {
  const Graph& g = joint.graph();
  if (joint.recomputing(id) == Recomputing::Free) return false;
  std::vector<NodeId> open{id};
  std::set<NodeId> seen{id};
  while (!open.empty()) {
    const NodeId at = open.back();
    open.pop_back();
    for (ValueId v : g.node(at).outputs)
      for (NodeId user : g.value(v).users) {
        if (joint.isWanted(user) && !joint.isRequired(user) && !runsInside(joint, at, user)) return true;
        if (joint.recomputing(user) == Recomputing::Free && seen.insert(user).second) open.push_back(user);
      }
  }
  return false;
}

bool isReduction(const JointGraph& joint, const Node& n) {
  size_t in = 0, out = 0;
  for (ValueId v : joint.operands(n.id)) in += joint.bytes(v);
  for (ValueId v : n.outputs) out += joint.bytes(v);
  return out * 4 < in;
}

std::string ownReason(const JointGraph& joint, const Node& n, Looseness looseness) {
  const Recomputing kind = joint.recomputing(n.id);
  if (kind == Recomputing::Never) return "it " + whyNeverAgain(n);
  if (kind == Recomputing::Free || looseness == Looseness::All) return "";
  if (kind == Recomputing::Expensive) return "its product or convolution is expensive to compute again";
  if (looseness == Looseness::Moderate) return "";
  if (looseness == Looseness::Nothing) return "nothing is computed again";
  if (kind == Recomputing::Moderate) return "it is a kernel of its own";
  if (isMaterializedBackwards(joint, n.id)) return "the backward pass reads it from memory in any case";
  if (isReduction(joint, n)) return "it is less than a quarter of what it is made from";
  return "";
}

bool isSmallBeside(const JointGraph& joint, ValueId v, NodeId user) {
  size_t made = 0;
  for (ValueId o : joint.graph().node(user).outputs) made += joint.bytes(o);
  return joint.bytes(v) * 4 < made;
}

/// A value that is used both by what it can be fused with and by nodes behind a kernel of its own: what comes behind
/// that kernel is not computed again, because one kernel could not hold both. A small value may wait for both.
void banUsesFarApart(const JointGraph& joint, Bans& bans) {
  const Graph& g = joint.graph();
  const auto required = [&](NodeId n) { return joint.isRequired(n) && joint.isForward(n); };
  for (NodeId id : joint.order()) {
    if (!required(id)) continue;
    using Step = std::pair<size_t, std::pair<NodeId, bool>>;  // place, node, whether it was fused up to there
    std::priority_queue<Step, std::vector<Step>, std::greater<>> open;
    std::set<NodeId> seen;
    size_t last = 0, users = 0;
    for (ValueId v : g.node(id).outputs)
      for (NodeId user : g.value(v).users)
        if (required(user)) {
          last = std::max(last, joint.place(user));
          if (seen.insert(user).second) open.push({joint.place(user), {user, true}}), ++users;
        }
    if (users < 2) continue;
    size_t unfusible = last;
    while (!open.empty()) {
      const auto [place, step] = open.top();
      open.pop();
      if (!step.second) {
        unfusible = place;
        break;
      }
      for (ValueId v : g.node(step.first).outputs)
        for (NodeId user : g.value(v).users)
          if (required(user) && joint.place(user) <= last && seen.insert(user).second)
            open.push({joint.place(user), {user, runsInside(joint, step.first, user)}});
    }
    for (ValueId v : g.node(id).outputs)
      for (NodeId user : g.value(v).users)
        if (required(user) && joint.place(user) > unfusible && runsInside(joint, id, user) && !bans.has(user) &&
            joint.recomputing(user) != Recomputing::Free && !isSmallBeside(joint, v, user))
          bans.reasons[user.index] = "it lies far behind another use of its operand";
  }
}

/// Chains of cheap nodes from one end of a model to the other: residual connections.
void banLongChains(const JointGraph& joint, Bans& bans) {
  constexpr size_t longest = 100;
  const Graph& g = joint.graph();
  const auto required = [&](NodeId n) { return joint.isRequired(n) && joint.isForward(n); };
  std::vector<char> seen(g.nodeBound(), 0);
  for (NodeId start : joint.order()) {
    if (!required(start)) continue;
    std::priority_queue<std::pair<size_t, NodeId>, std::vector<std::pair<size_t, NodeId>>, std::greater<>> open;
    open.push({joint.place(start), start});
    while (!open.empty()) {
      const NodeId at = open.top().second;
      open.pop();
      if (std::exchange(seen[at.index], 1)) continue;
      if (joint.place(at) > joint.place(start) + longest && open.empty()) {
        if (!bans.has(at) && joint.recomputing(at) != Recomputing::Free)
          bans.reasons[at.index] = "it ends a long chain of cheap nodes";
        break;
      }
      for (ValueId v : g.node(at).outputs)
        for (NodeId user : g.value(v).users)
          if (required(user) && runsInside(joint, at, user) && !bans.has(user)) open.push({joint.place(user), user});
    }
  }
}

}  // namespace

bool runsInside(const JointGraph& joint, NodeId producer, NodeId user) {
  const std::string_view name = joint.graph().node(user).op->baseName();
  if (name == "cat") return true;  // it can be written into its place
  return canFuse(joint, producer) && canFuse(joint, user);
}

Bans bansFor(const JointGraph& joint, const CutOptions& options) {
  const Graph& g = joint.graph();
  Bans bans;
  bans.reasons.resize(g.nodeBound());
  for (NodeId id : joint.order()) {
    if (!joint.isForward(id)) continue;
    // What no result needs is computed in the backward half alone: that is not twice. What is random stays in one half.
    if (!joint.isRequired(id) && joint.recomputing(id) != Recomputing::Never) continue;
    bans.reasons[id.index] = ownReason(joint, g.node(id), options.looseness);
  }
  if (options.looseness == Looseness::Cheap) {
    banUsesFarApart(joint, bans);
    banLongChains(joint, bans);
  }
  for (NodeId id : joint.order())
    if (id.index < options.alsoAgain.size() && options.alsoAgain[id.index] &&
        joint.recomputing(id) != Recomputing::Never)
      bans.reasons[id.index].clear();
  for (NodeId id : options.pins.recompute)
    if (joint.recomputing(id) != Recomputing::Never) bans.reasons[id.index].clear();
  for (ValueId v : options.pins.save)
    if (const NodeId by = g.value(v).producer) bans.reasons[by.index] = "it was asked for";
  return bans;
}

}  // namespace graft
