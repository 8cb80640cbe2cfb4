// The expressions that a program uses: a pool also keeps what was made on the way.
#pragma once

#include <vector>

#include "core/compile/loops/program.h"

namespace graft::loops {

/// The expressions and all their parts, each once, operands before what uses them.
std::vector<ExprId> reachable(const ExprPool&, std::vector<ExprId> roots);
/// What a nest's stores index and compute.
std::vector<ExprId> roots(const Nest&);
/// Likewise of all nests, with the extents of the ranges and the sizes of the buffers.
std::vector<ExprId> roots(const Program&);

}  // namespace graft::loops
