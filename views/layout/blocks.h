// Blocks: what a graph without modules repeats. Operators that come in the same order again and again are named as
// modules "block.0", "block.1", …, with parts "block.0.part_0_0" where they repeat something themselves, so that a
// drawing shows one of equal ones with ×N and has names where it is too small for operators. A block's type lists its
// main operators.
//
//   addBlocks(graph);   // as soon as it is read, and before anybody draws it
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Does nothing to a graph that has modules, that is small, or in which nothing repeats.
void addBlocks(Graph&);

}  // namespace graft
