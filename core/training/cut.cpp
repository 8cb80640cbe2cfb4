#include "core/training/cut.h"

#include <algorithm>
#include <cmath>

#include "core/training/bans.h"
#include "core/training/max_flow.h"

namespace graft {
namespace {

// The graph that flow goes through has a vertex for each node ("it is computed in the forward half") and one for each
// value ("it is there in the backward half"). The edge between them is cut where the forward half keeps the value.
class Cutting {
 public:
  Cutting(const JointGraph& joint, const CutOptions& options)
      : joint_(joint),
        g_(joint.graph()),
        options_(options),
        bans_(bansFor(joint, options)),
        flow_(2 + g_.nodeBound() + g_.valueBound()) {}

  Result<Cut> run() {
    for (ValueId v : g_.inputs())
      if (joint_.isForward(v)) flow_.addEdge(source, vertex(v), capacity(v));
    for (ValueId v : g_.weights()) flow_.addEdge(source, vertex(v), capacity(v));
    for (NodeId n : joint_.order()) addNode(n);
    for (const JointGraph::Returned& r : joint_.gradients())
      r.value.forEachValue([&](ValueId v) {
        if (joint_.isForward(v)) flow_.addEdge(vertex(v), sink, MaxFlow::infinite);
      });
    for (NodeId n : options_.pins.recompute)
      if (joint_.isWanted(n) && joint_.isForward(n) && !bans_.has(n)) flow_.addEdge(vertex(n), sink, MaxFlow::infinite);
    for (ValueId v : options_.pins.save)
      if (joint_.distance(v) < JointGraph::far) flow_.addEdge(vertex(v), sink, MaxFlow::infinite);
    if (flow_.run(source, sink) >= MaxFlow::infinite) return conflict();
    collect();
    return std::move(cut_);
  }

 private:
  static constexpr size_t source = 0, sink = 1;
  size_t vertex(NodeId n) const { return 2 + n.index; }
  size_t vertex(ValueId v) const { return 2 + g_.nodeBound() + v.index; }

  void addNode(NodeId id) {
    if (!joint_.isWanted(id)) return;
    if (!joint_.isForward(id)) {
      for (ValueId v : joint_.operands(id))
        if (joint_.isForward(v)) flow_.addEdge(vertex(v), sink, MaxFlow::infinite);
      return;
    }
    if (bans_.has(id)) flow_.addEdge(source, vertex(id), MaxFlow::infinite);
    for (ValueId v : joint_.operands(id)) flow_.addEdge(vertex(v), vertex(id), MaxFlow::infinite);
    for (ValueId v : g_.node(id).outputs) flow_.addEdge(vertex(id), vertex(v), capacity(v));
  }

  /// Bytes, in sixteenths. While cheap nodes alone are computed again, values near the backward pass are preferred, and
  /// so are those that are written to memory anyway.
  MaxFlow::Capacity capacity(ValueId v) const {
    if (joint_.isFree(v)) return 0;
    const Value& value = g_.value(v);
    if (!joint_.canBeSaved(v)) return MaxFlow::infinite;
    // Keeping a view would keep what it looks into.
    if (value.producer && joint_.recomputing(value.producer) == Recomputing::Free) return MaxFlow::infinite;
    double weight = 16.0 * static_cast<double>(std::max<size_t>(1, joint_.bytes(v)));
    if (options_.looseness == Looseness::Cheap && options_.alsoAgain.empty()) {
      weight *= std::pow(1.1, std::clamp(joint_.distance(v), 1, 100));
      const bool isWritten = !value.producer || value.returnUses > 0 ||
                             std::any_of(value.users.begin(), value.users.end(),
                                         [&](NodeId user) { return !runsInside(joint_, value.producer, user); });
      if (!isWritten) weight *= 2;
    }
    return static_cast<MaxFlow::Capacity>(weight);
  }

  bool isAhead(ValueId v) const {  // it is made in the forward half
    const NodeId by = g_.value(v).producer;
    return by ? flow_.isOnSourceSide(vertex(by)) : true;
  }

  // What the gradients need, from their end: the cut may hold values that nobody reads any more.
  void collect() {
    std::vector<char> needed(g_.valueBound(), 0), again(g_.nodeBound(), 0);
    std::vector<ValueId> open;
    const auto need = [&](ValueId v) {
      if (!std::exchange(needed[v.index], 1)) open.push_back(v);
    };
    for (const JointGraph::Returned& r : joint_.gradients()) r.value.forEachValue(need);
    for (ValueId v : options_.pins.save)
      if (joint_.distance(v) < JointGraph::far) need(v);
    std::vector<ValueId> saved;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const NodeId by = g_.value(v).producer;
      if (by && joint_.isForward(by) && !flow_.isOnSourceSide(vertex(by))) again[by.index] = 1;
      if (joint_.isForward(v) && isAhead(v)) {
        if (!joint_.isFree(v)) saved.push_back(v);
      } else if (by) {
        for (ValueId u : joint_.operands(by)) need(u);
      }
    }
    const auto place = [&](ValueId v) {
      const NodeId by = g_.value(v).producer;
      return std::pair(by ? joint_.place(by) + 1 : 0, v);
    };
    std::sort(saved.begin(), saved.end(), [&](ValueId a, ValueId b) { return place(a) < place(b); });
    for (ValueId v : saved) {
      cut_.saved.push_back({v, whySaved(v)});
      cut_.bytes += joint_.bytes(v);
    }
    for (NodeId n : joint_.order())
      if (again[n.index] && joint_.isRequired(n)) {  // what no result needs is computed once
        cut_.recomputed.push_back({n, whyAgain(n)});
        cut_.microseconds += joint_.microseconds(n);
      }
    cut_.bannedNodes.assign(g_.nodeBound(), 0);
    for (NodeId n : joint_.order()) cut_.bannedNodes[n.index] = bans_.has(n);
  }

  std::string whySaved(ValueId v) const {
    if (std::find(options_.pins.save.begin(), options_.pins.save.end(), v) != options_.pins.save.end())
      return "it was asked for";
    const NodeId by = g_.value(v).producer;
    if (!by) return joint_.isMutated(v) ? "the forward pass overwrites it" : "it is an input";
    if (bans_.has(by)) return bans_.reasons[by.index];
    return "it takes less memory than what it is made from";
  }

  std::string whyAgain(NodeId n) const {
    if (std::find(options_.pins.recompute.begin(), options_.pins.recompute.end(), n) != options_.pins.recompute.end())
      return "it was asked for";
    switch (joint_.recomputing(n)) {
      case Recomputing::Free:
        return "it is a view";
      case Recomputing::Cheap:
        return "it is cheap";
      default:
        return "the memory budget asks for it";
    }
  }

  Error conflict() const {
    for (ValueId v : options_.pins.save)
      if (!joint_.isFree(v) && capacity(v) >= MaxFlow::infinite)
        return badInput("%" + g_.value(v).name + " cannot be saved: it is a view; save what it looks into, %" +
                        g_.value(joint_.storageOf(v)).name);
    for (NodeId n : options_.pins.recompute)
      for (ValueId v : joint_.operands(n))
        if (capacity(v) >= MaxFlow::infinite)
          return badInput("`" + g_.node(n).name + "` cannot be recomputed: its operand %" + g_.value(v).name +
                          " can neither be saved nor computed again");
    return internalError("no cut parts the graph");
  }

  const JointGraph& joint_;
  const Graph& g_;
  const CutOptions& options_;
  Bans bans_;
  MaxFlow flow_;
  Cut cut_;
};

}  // namespace

Result<Cut> minimumCut(const JointGraph& joint, const CutOptions& options) { return Cutting(joint, options).run(); }

}  // namespace graft
