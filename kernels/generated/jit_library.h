// The library that makes machine code, libgraft_ops_llvm.so, which lies beside this one and is opened when it is first
// needed.
//
//   if (const GraftJit* jit = jitLibrary()) jit->compile(…);   else why = jitStatus();
#pragma once

#include <string>

#include "kernels/jit/jit.h"

namespace graft::ops {

/// Null where it is not there or belongs to another version.
const GraftJit* jitLibrary();
/// Why it is null; empty where it is not.
const std::string& jitStatus();

}  // namespace graft::ops
