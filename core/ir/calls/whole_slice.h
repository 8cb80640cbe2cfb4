// x[:], which takes all of x.
#pragma once

#include <cstdint>
#include <limits>

#include "core/ir/graph.h"

namespace graft {

/// Whether a slice takes all of its dimension, whatever the dimension's size: from the start, to the end, one by one.
inline bool isWholeSlice(const Node& n) {
  if (n.op->name != "aten.slice.Tensor" || n.args.size() != 5) return false;
  const bool fromStart = n.args[2].isNone() || n.args[2] == Argument(int64_t{0});
  const bool toEnd = n.args[3].isNone() || n.args[3] == Argument(std::numeric_limits<int64_t>::max());
  return fromStart && toEnd && n.args[4] == Argument(int64_t{1});
}

}  // namespace graft
