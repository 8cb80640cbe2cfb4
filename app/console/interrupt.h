// Ctrl-C: the first one asks the work to stop and to clean up; the second one ends the program at once.
#pragma once

#include "core/base/progress.h"

namespace graft::cli {

/// The token that SIGINT and SIGTERM cancel from now on. Call it on the main thread, which receives the signals;
/// calling it again is harmless.
///
/// The handler has a stack of its own. Libraries run generated code that points the stack pointer at a buffer on the
/// heap (oneDNN's AVX-512 sgemm kernels do where K is large). Without a stack of its own, the frame that the system
/// pushes for a handler would overwrite the heap's records.
CancelToken onInterrupt();

}  // namespace graft::cli
