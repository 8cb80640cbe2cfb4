// Whether control flow may leave None in a value.
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Whether a branch, or a turn of a loop, gives None for the value. A run shows only the branches that it takes.
bool mayBeNone(const Graph&, ValueId);

}  // namespace graft
