// The engine: JSON-RPC 2.0 over two file descriptors. One thread reads (so that $/cancel is heard at once), one works.
//
//   return serve(semantics, STDIN_FILENO, STDOUT_FILENO);     // until the input ends or the client says shutdown
#pragma once

#include "core/base/result.h"
#include "core/ir/semantics.h"

namespace graft {

/// BadInput where the client's framing is broken; the end of input is success.
Status serve(const Semantics&, int input, int output);

}  // namespace graft
