#include "core/torch/verify/index_guard.h"

#include <algorithm>

#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

bool takesIndices(const Graph& g) {
  const auto isIndex = [](const Parameter& p) {
    return p.name == "index" || p.name == "indices" || p.name == "ids" || p.name == "target";
  };
  const auto order = g.order();
  return std::any_of(order.begin(), order.end(), [&](NodeId id) {
    const std::vector<Parameter>& parameters = g.node(id).op->parameters;
    // A plain number (select) is refused on every device.
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const Parameter& p) { return isIndex(p) && p.type.kind != Type::Kind::Int; });
  });
}

}  // namespace

IndexGuard::IndexGuard(const Graph& g, const std::string& device) : g_(g), asks_(device != "cpu" && takesIndices(g)) {}

bool IndexGuard::refuses(const TensorSet& inputs, const Job& job) {
  if (!asks_) return false;
  if (!onCpu_) {
    RunOptions options;
    options.fixedShapes = false;
    options.missing = Missing::MadeUp;
    options.dtype = DType::Float32;  // not every operator of a CPU takes half types
    auto program = Program::build(g_, options);
    if (!program) asks_ = false;
    if (!program) return false;
    onCpu_ = std::move(*program);
  }
  const auto there = convert(inputs, "cpu", DType::Float32);
  return there && !runSeeded(*onCpu_, *there, job);
}

}  // namespace graft
