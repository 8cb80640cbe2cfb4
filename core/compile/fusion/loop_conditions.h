// What tells loops whether to go on. Passes leave it as it is written: torch.export's while_loop wants it as one
// computation, the same before the loop and at the end of each turn, on what the loop carries. Loops that count have
// none.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// The nodes that compute it, before loops and in them.
std::vector<NodeId> loopConditionNodes(const Graph&);

}  // namespace graft
