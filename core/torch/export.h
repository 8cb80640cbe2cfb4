// Model files out. A file on disk is always complete: written beside, synced, renamed.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/model.h"
#include "core/torch/tensors.h"

namespace graft {

struct ExportOptions {
  std::string operatorLibrary;  ///< noted in the extra file "graft.json" when graft:: operators are used
  /// Where graft:: operators are used and captureObstacle() knows none: the module holds a graft.Runner, which runs its
  /// forward as CUDA graphs on a GPU (kernels/runner/runner.cpp). Elsewhere forward runs as it is written.
  bool capture = true;
  /// For torch.export, which takes truth values, floats, None and texts as constants alone: what they are, by the
  /// graph's inputs. Of everything else nothing is read.
  TensorSet inputs;
};
/// Why the exported model shall not run as a CUDA graph: it has no graft:: operator (and so must load without their
/// library), or writes to its weights, … Empty where it may.
std::string captureObstacle(const Graph&);

/// TorchScript that torch.jit.load accepts in plain Python (graft operators need torch.ops.load_library first). The
/// module hierarchy and parameter names are kept, each call of a module is a method, shared weights are stored once.
Status exportTorchScript(const Graph&, const std::string& path, const ExportOptions& = {});
/// A torch.export archive that torch.export.load accepts (graft operators need torch.ops.load_library first). Needs the
/// types of all tensors. Branches on tensors become torch.cond, loops whose tensors say when to stop while_loop, and
/// loops of a known number of turns are written out. Other loops, and inputs that are neither tensors nor ints and are
/// not given in the options, are refused.
Status exportTorchExport(const Graph&, const std::string& path, const ExportOptions& = {});
/// What a path's ending says is written there: TorchScript for .pt, TorchExport for .pt2. Usage, with a message that
/// names both, for every other ending: a picture's or another tool's name would not say what the file holds.
Result<Format> exportFormat(const std::string& path);
/// One or the other, by exportFormat(path).
Status exportModel(const Graph&, const std::string& path, const ExportOptions& = {});
bool usesGraftOperators(const Graph&);

/// A graph as RunOptions::dtype runs it, written out: floating weights and inputs in that dtype, and what the
/// operators' arguments say of dtypes and of numbers too large for it. For those who can only run files, which often
/// name the dtype they were traced in. Types of values in between are inferred again. Where that cannot be done
/// (blocks, operators of one's own) they follow as the arguments do; where an operator refuses the dtype, none are
/// known.
struct GraphInDType {
  Graph graph;
  bool rewroteArguments = false;  ///< false: casting the module's weights and inputs comes to the same
};
/// BadInput where a weight cannot be brought to the dtype.
///
///   auto half = inDType(model.graph, DType::Float16);   // f32[2,384] is f16[2,384] all through half->graph
Result<GraphInDType> inDType(const Graph&, DType);

}  // namespace graft
