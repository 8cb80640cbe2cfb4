// The expressions that a program uses, since a pool also keeps what was made on the way; and what its nests pass to
// each other through buffers.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
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
/// The expression with other parts. What `change` gives stands for a part; where it gives nothing, the part is made
/// anew of its changed operands, and its origin stays. `done` holds what each part has become.
ExprId changed(ExprPool&, ExprId, std::unordered_map<ExprId, ExprId>& done,
               const std::function<ExprId(ExprId)>& change);
/// The values with what `stores` store in place of loads of it. Nothing where a load is of another place than the store
/// writes, or of another dtype.
std::optional<std::vector<ExprId>> withStoredValues(ExprPool&, const std::vector<Store>& stores,
                                                    std::vector<ExprId> values);

}  // namespace graft::loops
