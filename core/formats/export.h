// Model files out. A file on disk is always complete: written beside, synced, renamed.
//
//   if (Status s = exportModel(graph, "fast.pt"); !s) return s;
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/formats/file_format.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

struct ExportOptions {
  std::string operatorLibrary;  ///< noted in the extra file "graft.json" when graft:: operators are used
  /// For TorchScript. Where the graph uses graft:: operators and captureObstacle() finds none, the module holds a
  /// graft.Runner, which runs its forward as CUDA graphs on a GPU (kernels/runner.cpp). Otherwise forward runs as it is
  /// written.
  bool capture = true;
  /// With `capture`: so is a graph without graft:: operators. The file then needs their library.
  bool capturePlain = false;
  /// For torch.export, which takes truth values, floats, None and texts only as constants: their values, by the graph's
  /// inputs. Nothing is read of the other inputs.
  TensorSet inputs;
};

/// Writes the model in the format of the path's ending. What each format can hold is said in its folder's format.h.
Status exportModel(const Graph&, const std::string& path, const ExportOptions& = {});
/// The format of the path's ending. Usage, with a message that names all endings, for every other one: the name of a
/// picture or of another tool's file would not say what the file holds.
Result<const FileFormat*> exportFormat(const std::string& path);

/// Why the exported model must not run as a CUDA graph: it has no graft:: operator (and so must load without their
/// library), or a node does what a graph cannot repeat, and what to do about it. Empty where nothing forbids it.
/// `mayBePlain`: graft:: operators are not needed.
std::string captureObstacle(const Graph&, bool mayBePlain = false);

}  // namespace graft
