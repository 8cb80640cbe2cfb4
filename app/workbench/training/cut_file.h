// CutFile: what a person wants of the cut of a training step, as a file: how much may be saved, what is always saved,
// what is computed again. `graft partition --cut FILE` takes it, and the window writes it (app/json has its text).
//
//   {"partition": 1, "memory": 0.6, "save": ["addmm_4"], "recompute": ["encoder.layer.0"]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace graft::workbench {

struct CutWishes {
  double memory = 1;                   ///< the share of the default cut's bytes that may be kept, 0 to 1
  std::vector<std::string> save;       ///< names of values that are always kept
  std::vector<std::string> recompute;  ///< names of nodes, or paths of modules, that are computed again
};

constexpr int kCutFileVersion = 1;

/// BadInput with the place where the text is none; `file` is how the message calls it.
Result<CutWishes> parseCutFile(std::string_view text, const std::string& file);
Result<CutWishes> readCutFile(const std::string& path);
}  // namespace graft::workbench
