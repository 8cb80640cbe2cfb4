// Makes machine code of C++ that a person has edited, with the compiler of this machine. Whoever calls this has asked
// whether the text may be trusted: compiled, it does what it likes.
//
//   auto object = compileCpp(callableCpp(program, source));    // a shared object with the function kCppFunction
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/compile/loops/program.h"

namespace graft::codegen {

/// Runs all of it. `buffers`: inputs, then outputs, each without gaps. `sizes`: of the program. Returns 1 where a check
/// failed.
using CppFunction = int (*)(void* const* buffers, const int64_t* sizes, int threads);
constexpr const char* kCppFunction = "graft_run_cpp";

/// The source, whose function is `run` of all inputs, outputs and sizes as makeCppCode writes it, and a CppFunction
/// that calls it.
std::string callableCpp(const loops::Program&, const std::string& source);

/// The compiler, its flags and the processor that it compiles for: part of a cache's key, beside the text.
std::string cppCompiler();
/// The bytes of a shared object. BadInput where there is no compiler ($CXX, else c++), or with the first lines of what
/// it says.
Result<std::string> compileCpp(const std::string& text);

}  // namespace graft::codegen
