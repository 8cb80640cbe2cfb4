// Constants of a graph as Python.
#pragma once

#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace graft {

/// "torch.tensor([1.0, 2.0], dtype=torch.float32)"; nothing where there are more than 16384 elements, no data, or
/// another kind of numbers than Python writes.
std::optional<std::string> tensorLiteral(const Value& weight);

}  // namespace graft
