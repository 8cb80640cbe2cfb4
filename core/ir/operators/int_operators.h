// What operators of whole numbers compute, for graphs in which both numbers are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ir/argument.h"

namespace graft {

/// Comparisons, sums, differences and products: "aten.lt.int", "aten.add.int", … Nothing for another operator, or where
/// the result has no place in 64 bits.
std::optional<Argument> onInts(std::string_view op, int64_t a, int64_t b);

}  // namespace graft
