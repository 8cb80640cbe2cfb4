// Small parts of C that the printers of C++ and CUDA share.
#pragma once

#include <string>

#include "core/compile/loops/expression.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

/// "+" of Add; null where the operation is no sign between operands.
const char* infixSign(loops::Op);
/// Buffers, ranges and sizes that are named like a word of C++, or like something that printed code calls, get another
/// name: `long` becomes `long_`.
void avoidReservedNames(loops::Program&);
/// Without the parentheses around all of it; marks of origins (loops/marks.h) stay.
std::string bareText(const std::string& text);

}  // namespace graft::codegen
