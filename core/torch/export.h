// Model files out. A file on disk is always complete: written beside, synced, renamed.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

struct ExportOptions {
  std::string operatorLibrary;  ///< noted in the extra file "graft.json" when graft:: operators are used
};
/// TorchScript that torch.jit.load accepts in plain Python (graft operators need torch.ops.load_library first). The
/// module hierarchy and parameter names are kept, shared weights are stored once.
Status exportTorchScript(const Graph&, const std::string& path, const ExportOptions& = {});

}  // namespace graft
