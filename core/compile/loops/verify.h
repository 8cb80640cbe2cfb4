// What every program must be before code is made of it: dtypes fit, each range and local is in scope where it is used,
// every index lies in its buffer for all values of the ranges and sizes, no divisor is 0, every local and temporary is
// written before it is read, each output is written whole and no element of it twice, and the loops' extents are not
// negative.
//
//   Status s = verify(program);            // once
//   Status t = checkSizes(program, {4});   // before each call with other sizes
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

/// An error names the buffer or expression, as the program's text spells it, and what is wrong with it.
/// A load or store is accepted where bounds prove its index; the conditions of the Selects around it count.
/// A buffer is written whole where its stores' indices count through it (y[i0, i1*4 + i2]), or through parts of it that
/// follow each other.
Status verify(const Program&);

/// Whether the sizes of a call, in the order of program.sizes, are within their limits, no buffer is too large for 64
/// bits, and no arithmetic on ranges and sizes leaves them: verify() reasons about whole numbers without limit. A
/// program that verify() accepts is safe to run with sizes that this accepts.
Status checkSizes(const Program&, std::span<const int64_t> sizes);

}  // namespace graft::loops
