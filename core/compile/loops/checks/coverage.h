// Coverage: whether stores write each element of a buffer once.
#pragma once

#include <vector>

#include "core/compile/loops/simplify.h"

namespace graft::loops {

/// One store of a buffer, and all the ranges it runs over.
struct Write {
  std::vector<ExprId> index;
  std::vector<RangeId> ranges;
};

/// Whether the writes, each with an index inside of the buffer, write all of its elements and none twice. False where
/// that is not found: indices must count through the buffer, or through boxes that follow each other in it.
bool coversOnce(Simplifier&, const Buffer&, const std::vector<Write>&);

}  // namespace graft::loops
