// What nests read and store, for passes that put stores into other nests.
//
// Private to core/compile/lower.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/compile/lower/lowering.h"

namespace graft::lower {

/// A share of what a nest reads, one of so many: what saves less is left as it is.
inline constexpr int64_t kLeastShare = 16;

/// Whether a nest stores results alone, one element in an iteration, each made of elements: it reduces nothing.
bool storesElements(const Lowering&, const loops::Nest&);
std::set<loops::BufferId> readBy(const Lowering&, const std::vector<loops::Store>&);
int64_t bytesOf(const Lowering&, const std::set<loops::BufferId>&);
/// Whether a nest from place `first` to the one before `end` stores into one of them.
bool isStoredFrom(const Lowering&, const std::set<loops::BufferId>&, size_t first, size_t end);
/// Whether a buffer counts beside so many elements: statistics of them do not.
bool isLarge(const Lowering&, loops::BufferId, int64_t elements);
std::set<RangeId> rangesIn(const Lowering&, ExprId);

}  // namespace graft::lower
