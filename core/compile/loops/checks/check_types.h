// The dtypes of an expression: what each operation takes.
#pragma once

#include <string>

#include "core/compile/loops/program.h"

namespace graft::loops {

/// What is wrong with the dtypes, the number of operands or the ids of an expression, its operands aside; empty where
/// nothing is.
std::string typeComplaint(const Program&, ExprId);

}  // namespace graft::loops
