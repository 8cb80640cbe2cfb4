#include "core/torch/verify/index_guard.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/ir/subgraph.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

bool takesIndices(const Operator& op) {
  // A plain number (select) is refused on every device.
  return std::any_of(op.parameters.begin(), op.parameters.end(), [](const Parameter& p) {
    const bool isIndex = p.name == "index" || p.name == "indices" || p.name == "ids" || p.name == "target";
    return isIndex && p.type.kind != Type::Kind::Int;
  });
}

template <class F>
void forEachArgument(const Node& n, const F& f) {
  for (const Argument& a : n.args) a.forEachValue(f);
  for (const auto& [key, a] : n.kwargs) a.forEachValue(f);
}

/// The nodes that take indices, but for those of weights alone: a table of positions, looked up by a buffer, is the
/// same for all inputs.
std::vector<NodeId> lookups(const Graph& g) {
  std::vector<NodeId> out;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (!takesIndices(*n.op)) continue;
    bool varies = false;
    forEachArgument(n, [&](ValueId v) { varies = varies || !dependsOnWeightsAlone(g, v); });
    if (varies) out.push_back(id);
  }
  return out;
}

/// What computes the lookups and nothing else: a language model's is its embedding. Nothing where only the whole graph
/// tells: in control flow, and where nodes write to memory that others read.
std::optional<Graph> partWith(const Graph& g, const std::vector<NodeId>& lookups) {
  for (NodeId id : g.order())
    if (g.node(id).op->writes() || !g.node(id).blocks.empty()) return std::nullopt;
  std::unordered_set<NodeId> needed;
  std::vector<NodeId> open = lookups;
  std::vector<ValueId> outputs;
  for (NodeId id : lookups) outputs.insert(outputs.end(), g.node(id).outputs.begin(), g.node(id).outputs.end());
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (!needed.insert(id).second) continue;
    forEachArgument(g.node(id), [&](ValueId v) {
      if (const NodeId producer = g.value(v).producer) open.push_back(producer);
    });
  }
  const auto inputs = g.inputs();
  const std::vector<ValueId> first(inputs.begin(), inputs.end());
  auto part = extractSubgraph(g, {needed.begin(), needed.end()}, outputs, {}, first);
  if (!part || part->inputs != first) return std::nullopt;
  return std::move(part->graph);
}

}  // namespace

IndexGuard::IndexGuard(const Graph& g, const std::string& device) : g_(g), asks_(device != "cpu") {}

bool IndexGuard::refuses(const TensorSet& inputs, const Job& job) {
  if (!asks_) return false;
  if (!onCpu_) {
    const std::vector<NodeId> found = lookups(g_);
    asks_ = !found.empty();
    if (!asks_) return false;
    RunOptions options;
    options.fixedShapes = false;
    options.missing = Missing::MadeUp;
    options.dtype = DType::Float32;  // not every operator of a CPU takes half types
    const std::optional<Graph> part = partWith(g_, found);
    auto program = Program::build(part ? *part : g_, options);
    if (!program) asks_ = false;
    if (!program) return false;
    onCpu_ = std::move(*program);
  }
  const auto there = convert(inputs, "cpu", DType::Float32);
  return there && !runSeeded(*onCpu_, *there, job);
}

}  // namespace graft
