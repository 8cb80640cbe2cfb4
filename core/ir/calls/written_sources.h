// Which tensors do not keep the numbers that they were made with.
#pragma once

#include <unordered_set>

#include "core/ir/graph.h"

namespace graft {

/// The values that some node writes to, and all that these are views of: what they are depends on where one asks.
std::unordered_set<ValueId> writtenSources(const Graph&);
/// These, and all that may show their memory: views of them, and what branches and loops make of either.
std::unordered_set<ValueId> writtenMemory(const Graph&);

}  // namespace graft
