// Names of C++ as people write them: "void f<float>(int)" of "_Z1fIfEvi".
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>

namespace graft {

/// The name itself where it is none of C++.
inline std::string demangled(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : symbol;
  std::free(text);
  return out;
}

}  // namespace graft
