// Small parts of C that the printers of C++ and CUDA share.
#pragma once

#include <string>

#include "core/compile/loops/expression.h"

namespace graft::codegen {

/// "+" of Add; null where the operation is no sign between operands.
const char* infixSign(loops::Op);
/// Without the parentheses around all of it.
std::string bareText(const std::string& text);

}  // namespace graft::codegen
