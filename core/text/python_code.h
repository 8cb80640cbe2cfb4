// The graph as the Python that torch.fx shows as `.code`: one statement for each node, values dropped after their last
// use. Nodes that came from FX are spelled as FX spelled them; others call torch.ops. Run in Python with the model as
// `self`, it computes the same.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// The Python expression of a constant that no module holds ("torch.tensor([1, 2])"); nothing: it is read from `self`.
using LiteralOf = std::function<std::optional<std::string>(const Value&)>;

/// An error where the graph has what straight-line Python of this kind cannot say (control flow).
Result<std::string> pythonCode(const Graph&, const LiteralOf& literal = {});

}  // namespace graft
