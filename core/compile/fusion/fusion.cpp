#include "core/compile/fusion/fusion.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/compile/fusion/planner.h"
#include "core/compile/lower/lower.h"

namespace graft {

bool isOnGpu(const Graph& g) {
  return std::any_of(g.inputs().begin(), g.inputs().end(),
                     [&](ValueId v) { return g.value(v).type.tensorInfo.device.starts_with("cuda"); });
}

bool feedsKernel(const Graph& g, ValueId v) {
  const std::vector<NodeId>& users = g.value(v).users;
  return std::any_of(users.begin(), users.end(), [&](NodeId user) {
    const Node& n = g.node(user);
    const lower::Traits traits = lower::traitsOf(g, n);
    if (traits.kind == lower::Kind::None || traits.kind == lower::Kind::Product || traits.repeatsReads) return false;
    return traits.kind != lower::Kind::View ||
           std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId out) { return feedsKernel(g, out); });
  });
}

void planForGpu(FusionOptions& options) {
  options.prices = kGpuPrices;
  options.hasProducts = true;
}

FusionPlan planFusion(const Graph& g, const FusionOptions& options) {
  std::optional<FusionPlan> before;
  if (!options.steering.move.empty()) {
    FusionOptions without = options;
    without.steering.move.clear();
    before = FusionPlanner(g, without, nullptr).plan();
  }
  FusionPlan plan = FusionPlanner(g, options, before ? &*before : nullptr).plan();
  chooseKernels(g, options.steering, plan);
  return plan;
}

Steering steeringFor(const Graph& g, const FusionPlan& plan) {
  Steering out;
  out.automatic = false;
  for (const FusionGroup& group : plan.groups) {
    std::vector<std::string>& names = out.merge.emplace_back();
    for (const NodeId n : group.computing) names.push_back(g.node(n).name);
    if (!group.choice.isEmpty()) out.kernels.push_back({names, group.choice, {}, {}});
  }
  return out;
}

Graph groupGraph(const Graph& g, const FusionGroup& group) {
  Graph out;
  out.name = group.name;
  for (const Symbol& s : g.symbols()) out.setSymbol(s);
  std::unordered_map<ValueId, ValueId> now;
  // Where it runs is the call's affair.
  const auto typeOf = [&](ValueId v) {
    Type type = g.value(v).type;
    type.tensorInfo.device.clear();
    return type;
  };
  for (const ValueId v : group.inputs) now.emplace(v, out.addInput(g.value(v).name, typeOf(v)));
  for (const NodeId id : group.nodes) {
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    for (Argument& a : args) a.forEachValueMutable([&](ValueId& v) { v = now.at(v); });
    const NodeId made = out.append(out.root(), n.op, std::move(args), n.name);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i >= out.node(made).outputs.size()) out.addOutput(made, g.value(n.outputs[i]).name, Type());
      const ValueId v = out.node(made).outputs[i];
      out.setType(v, typeOf(n.outputs[i]));
      now.emplace(n.outputs[i], v);
    }
  }
  std::vector<Argument> returns;
  for (const ValueId v : group.outputs) returns.emplace_back(now.at(v));
  out.setReturns(out.root(), std::move(returns));
  return out;
}

}  // namespace graft
