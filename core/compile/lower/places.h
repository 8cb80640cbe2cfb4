// Where the elements lie that an index of ranges goes over, as sums of steps along the ranges.
//
// Private to core/compile/lower. Sizes must be numbers: of others, nothing is known.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/compile/lower/lowering.h"

namespace graft::lower {

/// Whether an index over these ranges has each element of a tensor of those sizes once: where the element lies, row by
/// row, is a sum of the ranges, each one's step as large as what the smaller ones cover.
bool goesOverAll(Lowering&, const std::vector<RangeId>& ranges, const Index&, const Sizes&);

/// The values of the ranges in `index` with which it is the index `place` of a tensor of those sizes; nothing where
/// they cannot be told, or where one of `ranges` is not among them. A range that was flattened of two (i // 12, i % 12)
/// is put together again.
using RangeValues = std::unordered_map<RangeId, ExprId>;
std::optional<RangeValues> findRangeValues(Lowering&, const Index& index, const Index& place, const Sizes&,
                                           const std::vector<RangeId>& ranges);

/// The range along which an index steps by ones.
std::optional<RangeId> findRangeOfOnes(const Lowering&, ExprId index);

/// How many there are; nothing where that is not known.
std::optional<int64_t> countOf(const Lowering&, const Sizes&);
std::optional<int64_t> countOf(const Lowering&, const std::vector<RangeId>&);

}  // namespace graft::lower
