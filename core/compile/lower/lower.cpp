#include "core/compile/lower/lower.h"

#include <fmt/format.h>

#include <array>

#include "core/compile/lower/call.h"
#include "core/compile/lower/lowering.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {
namespace {

/// A value that several nodes read, or one node twice, is worth keeping.
void shareReadTwice(Lowering& l, ValueId v) {
  const Value& value = l.graph.value(v);
  if (value.type.isTensor() && value.users.size() + value.returnUses > 1) l.share(l.tensorOf(v));
}

/// Elements are computed by functions that call each other, from the last node to the first: as deep as a chain is
/// long.
constexpr size_t mostNodes = 1000;

void lowerAll(Lowering& l, std::span<const std::vector<int64_t>> strides) {
  if (l.graph.nodeCount() > mostNodes)
    throw Refusal{fmt::format("a group has at most {} nodes, and this one has {}", mostNodes, l.graph.nodeCount())};
  if (const auto weights = l.graph.weights(); !weights.empty())
    throw Refusal{fmt::format("the weight %{} is no input of the group", l.graph.value(weights.front()).name)};
  size_t next = 0;
  for (const ValueId v : l.graph.inputs()) {
    const Type& type = l.graph.value(v).type;
    if (type.kind == Type::Kind::Int) {
      l.addIntegerInput(v);
      continue;
    }
    const TensorId t = l.addInput(v);
    if (next < strides.size()) l.setFastest(t, strides[next++]);
  }
  for (const NodeId id : l.graph.order(l.graph.root())) {
    const Node& node = l.graph.node(id);
    try {
      l.lowerNode(node);
    } catch (const Refusal& r) {
      throw Refusal{fmt::format("%{}: {}", node.name, r.why)};
    }
    for (const ValueId v : node.outputs) shareReadTwice(l, v);
  }
  std::vector<ScheduledResult> results;
  for (const Argument& a : l.graph.returns()) {
    if (!a.isValue() || !l.graph.value(a.valueId()).type.isTensor())
      throw Refusal{"the group returns other than tensors"};
    if (!l.graph.value(a.valueId()).users.empty()) l.keepResult(l.tensorOf(a.valueId()));
    results.push_back({l.tensorOf(a.valueId()), l.graph.value(a.valueId()).name});
    if (next < strides.size()) results.back().strides = strides[next++];
  }
  schedule(l, results);
}

}  // namespace

std::string_view kindName(Kind kind) {
  constexpr std::array<std::string_view, 10> names{"none",      "size", "pointwise", "view",    "gather",
                                                   "reduction", "scan", "window",    "factory", "product"};
  return names[static_cast<size_t>(kind)];
}

Traits traitsOf(const Graph& graph, const Node& node) {
  Traits traits;
  if (!findEntry(node.op->name)) {
    if (node.op->name == "graft.generated.default")
      traits.whyNot = "it is a generated kernel already";
    else if (node.op->name.starts_with("graft."))
      traits.whyNot = fmt::format("{} is a kernel of its own, written by hand", node.op->name);
    else
      traits.whyNot = fmt::format("Graft has no loops for {}", node.op->name);
    return traits;
  }
  Lowering l(graph);
  try {
    l.lowerNode(node, &traits);
  } catch (const Refusal& r) {
    return {.whyNot = r.why};
  }
  return traits;
}

Kind kindOf(std::string_view op) {
  const Entry* entry = findEntry(op);
  return entry ? entry->kind : Kind::None;
}

Result<loops::Program> lower(const Graph& group, std::span<const std::vector<int64_t>> strides,
                             const Machine& machine) {
  try {
    Lowering l(group, machine);
    lowerAll(l, strides);
    const std::set<RowsAndColumns> both = rowsBesideColumns(l);
    if (both.empty()) return tidied(l.program);
    // Once more, with parts of columns that a kernel of rows can make.
    Lowering again(group, machine, both);
    lowerAll(again, strides);
    return tidied(again.program);
  } catch (const Refusal& r) {
    return badInput(r.why);
  }
}

}  // namespace graft::lower
