// IR text to an object file, with LLVM.
#pragma once

#include <string>
#include <vector>

namespace graft::jit {

/// "14.0.6".
const char* llvmVersion();
int hostLevel();
/// True and the object's bytes, or false and what is wrong with the text, with line and column.
bool compileObject(const std::string& ir, int level, std::vector<char>& object, std::string& error);

}  // namespace graft::jit
