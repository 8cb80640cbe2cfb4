// Folding of constants: what one operation makes of operands that are known. It keeps every value bit by bit: x * 1.0
// is x, but x + 0.0 is not, since -0.0 + 0.0 is 0.0.
#pragma once

#include "core/compile/loops/expression.h"

namespace graft::loops {

/// The expression, or an operand or a constant that has its value, in the pool.
ExprId addFolded(ExprPool&, const Expr&);

}  // namespace graft::loops
