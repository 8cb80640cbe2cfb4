// The expressions that a program uses, since a pool also keeps what was made on the way; and what its nests pass to
// each other through buffers.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "core/compile/loops/program.h"

namespace graft::loops {

/// The expressions and all their parts, each once, operands before what uses them.
std::vector<ExprId> reachable(const ExprPool&, std::vector<ExprId> roots);
/// What a nest's stores index and compute.
std::vector<ExprId> roots(const Nest&);
/// Likewise of all nests, with the extents of the ranges and the sizes of the buffers.
std::vector<ExprId> roots(const Program&);
/// The buffers that a nest loads from.
std::set<BufferId> readBuffers(const Program&, const Nest&);
/// The values with what `stores` store in place of loads of it. Nothing where a load is of another place than the store
/// writes, or of another dtype.
std::optional<std::vector<ExprId>> withStoredValues(ExprPool&, const std::vector<Store>& stores,
                                                    std::vector<ExprId> values);

}  // namespace graft::loops
