// The loops of machine code as C++, for people: the same order of loops, the same merged and split ranges, one
// statement for each value that several others use. A compiler accepts it, and what it computes is the same but for
// the order in which sums are added.
//
//   std::string text = makeCppCode(program, options);     // int run(const float* x, float* y, int64_t s0) { … }
#pragma once

#include <string>

#include "core/compile/codegen/cpu_code.h"

namespace graft::codegen {

/// A whole file: what it needs, and one function `run` of all inputs, outputs and sizes, which returns 1 where a check
/// failed. `options` as for makeCpuCode.
/// `hasMarks`: with the origins of expressions, as loops/marks.h writes them.
std::string makeCppCode(loops::Program, const CpuOptions&, bool hasMarks = false);

}  // namespace graft::codegen
