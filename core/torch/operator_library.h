// Shared libraries of operators: Graft's own, libgraft_ops.so, and those that users write. Opening a library registers
// its operators with LibTorch.
//
//   if (Status s = loadOperatorLibrary(); !s) return s;   // graft:: operators run from here on
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// Where Graft's own library lies: the loaded one, else $GRAFT_OPS, else libgraft_ops.so in a folder lib beside or
/// above the program. BadInput where none of these exists.
Result<std::string> findOperatorLibrary();
/// Loads a library by its path; "" loads Graft's own, which findOperatorLibrary finds. Loading it twice is harmless.
Status loadOperatorLibrary(const std::string& path = "");
/// What Graft's own library says about its operators, as JSON; null before it is loaded.
const char* describeOperatorLibrary();
/// Whether the graph calls a graft:: operator, and so needs Graft's own library to run.
bool usesGraftOperators(const Graph&);

}  // namespace graft
