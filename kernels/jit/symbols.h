// The functions that generated code may call: the C library's mathematics, and what LLVM itself calls to move memory.
#pragma once

#include <string>

namespace graft::jit {

/// Null where generated code may not call a function of that name.
void* findFunction(const std::string& name);

}  // namespace graft::jit
