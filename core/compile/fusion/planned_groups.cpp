// What a plan says of the groups that were found, of the pairs that stay apart, and of the nodes that stay.
#include <algorithm>
#include <unordered_set>

#include "core/compile/fusion/planner.h"

namespace graft {
namespace {

using Role = FusionNode::Role;

}  // namespace

void FusionPlanner::explainEdges(FusionPlan& plan) const {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const NodeId id : g_.order()) {
    const uint32_t b = groupOf_[id.index];
    if (b == none || nodes_[id.index].role != Role::Compute) continue;
    for (const FusionRead& r : nodes_[id.index].reads) {
      const NodeId producer = g_.value(r.base).producer;
      const uint32_t a = producer ? groupOf_[producer.index] : none;
      if (a == none || a == b || !groups_[a].computes || !seen.emplace(a, b).second) continue;
      const MergeJudgement j = judge(a, b);
      FusionDecision d{g_.node(producer).name,
                       g_.node(id).name,
                       g_.value(r.base).name,
                       j.isLegal,
                       false,
                       false,
                       false,
                       j.why,
                       j.apart,
                       j.together};
      if (j.isLegal) d.why = options_.steering.automatic ? "it would not be faster" : "only what is listed is merged";
      plan.decisions.push_back(std::move(d));
    }
  }
}

void FusionPlanner::collect(FusionPlan& plan) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].isAlive && groups_[i].computes) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return groups_[a].last < groups_[b].last; });
  for (const uint32_t i : order) {
    GrowingGroup& group = groups_[i];
    if (group.nodes.size() < 2 && !nodes_[group.nodes.front().index].mayBeAlone) {
      const Node& n = g_.node(group.nodes.front());
      plan.notFused.push_back({n.name, n.op->name, "it has no neighbour that it may be fused with"});
      continue;
    }
    FusionGroup made = describe(i, i);
    // What a model makes of sizes alone goes to the device that it is run on; a kernel runs where its tensors are.
    // Numbers may stay on the CPU: they stand beside tensors of any device.
    const auto saysWhere = [&](ValueId v) {
      const Type& type = g_.value(v).type;
      if (!type.isTensor()) return false;
      const TensorInfo& t = type.tensorInfo;
      return t.device.starts_with("cuda") || !t.shape || !t.shape->empty();
    };
    if (std::none_of(made.inputs.begin(), made.inputs.end(), saysWhere)) {
      for (const NodeId n : made.computing)
        plan.notFused.push_back({g_.node(n).name, g_.node(n).op->name,
                                 "its group reads no tensor, which would say on which device it runs"});
      continue;
    }
    if (made.outputs.empty()) {
      for (const NodeId n : made.computing)
        plan.notFused.push_back({g_.node(n).name, g_.node(n).op->name, "nobody reads what it computes"});
      continue;
    }
    plan.groups.push_back(std::move(made));
  }
  for (const NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    const FusionNode& f = nodes_[id.index];
    if (f.role == Role::Barrier && n.op->hasSchema && !n.op->is(OperatorFact::Structural))
      plan.notFused.push_back({n.name, n.op->name, f.why});
  }
}

FusionGroup FusionPlanner::describe(uint32_t ai, uint32_t bi) const {
  FusionGroup out;
  out.product = groups_[ai].product ? groups_[ai].product : groups_[bi].product;
  std::vector<NodeId> nodes = groups_[ai].nodes;
  if (ai != bi) nodes.insert(nodes.end(), groups_[bi].nodes.begin(), groups_[bi].nodes.end());
  std::set<std::pair<int64_t, NodeId>> members;  // with the views that they read through
  for (const NodeId id : nodes) {
    members.emplace(g_.node(id).orderKey, id);
    for (const Argument& a : g_.node(id).args)
      a.forEachValue([&](ValueId v) { addViews(v, groups_[ai].block, members); });
  }
  for (const auto& [key, id] : members) out.nodes.push_back(id);
  const std::unordered_set<NodeId> inside(out.nodes.begin(), out.nodes.end());
  std::vector<ValueId> numbers;
  std::unordered_set<ValueId> seen;
  double calls = 0;
  for (const NodeId id : out.nodes) {
    const Node& n = g_.node(id);
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) {
        if (inside.contains(g_.value(v).producer) || !seen.insert(v).second) return;
        (g_.value(v).type.isTensor() ? out.inputs : numbers).push_back(v);
        if (g_.value(v).type.isTensor()) out.bytes += static_cast<size_t>(bytesOf(g_.value(v).type));
      });
    if (nodes_[id.index].role == Role::View) continue;
    out.computing.push_back(id);
    ++calls;
    for (const FusionRead& r : nodes_[id.index].reads)
      if (g_.value(r.base).type.isTensor()) out.bytesApart += static_cast<size_t>(bytesOf(g_.value(r.base).type));
    out.bytesApart += static_cast<size_t>(nodes_[id.index].outputBytes);
    for (const ValueId v : n.outputs) {
      if (!isReadOutside(v, ai, bi)) continue;
      out.outputs.push_back(v);
      out.bytesWritten += static_cast<size_t>(bytesOf(g_.value(v).type));
    }
  }
  out.bytes += out.bytesWritten;
  out.microseconds = options_.prices.call + microsecondsOfBytes(options_.prices, static_cast<double>(out.bytes));
  out.inputs.insert(out.inputs.end(), numbers.begin(), numbers.end());
  const double fewer = static_cast<double>(out.bytesApart) - static_cast<double>(out.bytes);
  out.savedMicroseconds = (calls - 1) * options_.prices.call + microsecondsOfBytes(options_.prices, fewer);
  out.name = nameOf(out);
  return out;
}

void FusionPlanner::addViews(ValueId v, BlockId block, std::set<std::pair<int64_t, NodeId>>& members) const {
  const NodeId view = viewBehind(g_, nodes_, v, block);
  if (!view || !members.emplace(g_.node(view).orderKey, view).second) return;
  for (const Argument& a : g_.node(view).args) a.forEachValue([&](ValueId w) { addViews(w, block, members); });
}

std::string FusionPlanner::nameOf(const FusionGroup& group) const {
  constexpr size_t mostWords = 4;
  std::vector<std::string> words;
  for (const NodeId id : group.nodes)
    if (nodes_[id.index].role == Role::Compute) words.emplace_back(g_.node(id).op->baseName());
  std::string name;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool isLeftOut = words.size() > mostWords && i >= mostWords - 1 && i + 1 < words.size();
    if (isLeftOut && i > mostWords - 1) continue;
    name += (i > 0 ? "_" : "") + (isLeftOut ? std::to_string(words.size() - mostWords) + "more" : words[i]);
  }
  return name;
}

}  // namespace graft
