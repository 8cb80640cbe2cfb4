// The number of a tensor's dimensions, from its type or, where an importer saw no shapes, from the operators that made
// it: a view's list of sizes, a permutation, whatever keeps its input's rank.
#pragma once

#include <optional>

#include "core/ir/graph.h"

namespace graft {

std::optional<int64_t> knownRank(const Graph&, ValueId);

/// Of a list that chunk, split or unbind make: how many tensors it holds, where that is known before running.
std::optional<int64_t> knownParts(const Graph&, ValueId list);

}  // namespace graft
