// The symbols that a graph's sizes are made of. A graph may know ranges of more: of sizes that were found to be equal,
// or that a rewrite took away. What is shown and written is what this gives.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// The symbols with a range that stand in some value's type or in some argument, in the order of their names.
std::vector<Symbol> usedSymbols(const Graph&);

}  // namespace graft
