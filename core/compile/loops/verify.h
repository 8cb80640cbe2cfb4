// What every program must be before code is made of it: dtypes fit, each range and local is in scope where it is used,
// every index lies in its buffer for all values of the ranges and sizes, every local and temporary is written before it
// is read, each output is written whole and no element of it twice, and the loops' extents are not negative.
#pragma once

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

/// An error names the buffer or expression, as the program's text spells it, and what is wrong with it.
/// A load or store is accepted where bounds prove its index; the conditions of the Selects around it count.
Status verify(const Program&);

}  // namespace graft::loops
