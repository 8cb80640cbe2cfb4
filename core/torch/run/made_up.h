// What stands for the outputs of an operator that this machine does not have: random tensors of the types that the
// graph says (Missing::MadeUp, core/torch/executor.h).
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct InputSpec;  // core/torch/run/plan.h

/// What each symbol is in a run.
using SymbolSizes = std::map<std::string, int64_t>;
/// The symbols that stand alone as a size of an input, as these inputs have them.
SymbolSizes symbolSizes(const std::vector<InputSpec>&, const std::vector<c10::IValue>& inputs);

/// Whether the graph says enough of all the node's outputs: tensors of a known dtype, whose sizes are numbers or follow
/// from the inputs.
bool canBeMadeUp(const Graph&, const Node&);
/// Normal numbers, and zeros and ones where these are no floating-point numbers. The same for one `seed` and one size.
at::Tensor makeUp(const Type&, uint64_t seed, const SymbolSizes&, c10::Device, std::optional<DType> floatsAs);

}  // namespace graft
