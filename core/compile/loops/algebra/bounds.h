// Bounds of integers, and what arithmetic makes of them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/ir/type.h"

namespace graft::loops {

/// Inclusive; absent: none is known.
struct Bounds {
  std::optional<int64_t> min, max;
};

/// `overflows` becomes true where a bound leaves 64 bits; it is absent then.
Bounds addBounds(Bounds, Bounds, bool& overflows);
Bounds scaleBounds(Bounds, int64_t, bool& overflows);
Bounds multiplyBounds(Bounds, Bounds, bool& overflows);
/// Of a // b and a % b. Nothing is known where b might be 0.
Bounds quotientBounds(Bounds a, Bounds b);
Bounds remainderBounds(Bounds a, Bounds b);
Bounds minimumBounds(Bounds, Bounds);
Bounds maximumBounds(Bounds, Bounds);
Bounds absoluteBounds(Bounds);
/// Of a number that is one of the two.
Bounds eitherBounds(Bounds, Bounds);
/// Of all numbers of bool and the integers below 64 bits.
Bounds dtypeBounds(DType);
/// Of a range with this extent, where it runs.
Bounds rangeBounds(Bounds extent);

/// a / b, rounded down; b is not 0, and not -1 where a is the least number.
int64_t floorDivided(int64_t a, int64_t b);

}  // namespace graft::loops
