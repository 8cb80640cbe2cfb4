// Work: how many floating-point operations a kernel or an operator computes, counted from its loops. With its bytes and
// what a machine reaches of both, that tells how fast it could be.
//
//   std::optional<double> n = floatingOperations(graph, node);      // 2 * 8 * 384 * 1536 of a small linear
//
// An addition, a multiplication, a comparison's maximum and a function such as exp are one operation each, as long as
// they give floating-point numbers; index arithmetic, casts and loads are none. What does not depend on a loop counts
// once for all of its iterations.
#pragma once

#include <optional>
#include <span>

#include "core/compile/loops/program.h"
#include "core/ir/graph.h"

namespace graft {

/// Of one call, with the program's sizes in it. Time is linear in the program, for few ranges.
double floatingOperations(const loops::Program&, std::span<const int64_t> sizes);

/// Of a node whose shapes are numbers: from its loops, or of attention and of Graft's own operators their products.
/// Nothing: not known.
std::optional<double> floatingOperations(const Graph&, NodeId);

}  // namespace graft
