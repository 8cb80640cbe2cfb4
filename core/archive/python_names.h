// What the names in a TorchScript archive's code are made of.
#pragma once

#include <cctype>

namespace graft {

inline bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace graft
