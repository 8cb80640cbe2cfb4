// The characters of names in a TorchScript archive's code.
#pragma once

#include <cctype>

namespace graft {

inline bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace graft
