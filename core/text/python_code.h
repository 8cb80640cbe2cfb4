// The graph as the Python that torch.fx shows as `.code`: one statement for each node, values dropped after their last
// use. Nodes that came from FX are spelled as FX spelled them; others call torch.ops. Run in Python with the model as
// `self`, it computes the same.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// An error where the graph has what straight-line Python of this kind cannot say (control flow).
Result<std::string> pythonCode(const Graph&);

}  // namespace graft
