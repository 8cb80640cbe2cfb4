// Ctrl-C: the first asks the work to stop and to clean up, the second ends the program as Ctrl-C does elsewhere.
#pragma once

#include "core/base/progress.h"

namespace graft::cli {

/// What SIGINT and SIGTERM cancel from now on. Called from the main thread, which is the one that the system tells; may
/// be called again.
///
/// The handler has a stack of its own. Libraries run generated code that points the stack pointer at a buffer on the
/// heap (oneDNN's AVX-512 sgemm kernels do where K is large): there, the frame that the system pushes for a handler
/// would be written over the heap's own records.
CancelToken onInterrupt();

}  // namespace graft::cli
