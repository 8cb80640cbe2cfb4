// CapturedGraph: one of the graphs that torch.compile captured of a model, as the file tells of it: why the capture
// ended there, and under which conditions the graph holds. Reading them reads no graph.
//
//   for (const CapturedGraph& g : *capturedGraphs("net.fx")) fmt::print("{}: {}\n", g.name, g.breakReason);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"

namespace graft {

struct CapturedGraph {
  std::string name;                 ///< "forward", "joint.1": what --method takes
  size_t nodes = 0;                 ///< as they were captured, before the normal form
  std::string breakReason;          ///< why the capture broke behind it; "": it did not
  std::vector<std::string> guards;  ///< "TENSOR_MATCH L['x']: …": what torch.compile asks before it runs the graph
};

/// The graphs that a file holds of one capture, first "forward". Empty where the file is a model of any other kind. Of
/// a folder: those of all captures in it (.fx), under the names of their files: "step_1/forward". Errors are those of
/// importModel.
Result<std::vector<CapturedGraph>> capturedGraphs(const std::string& path);

/// The graph of a model of any kind as its file has it, before it is brought into the normal form. Never null. Errors
/// are those of importModel.
Result<std::shared_ptr<const Graph>> importAsCaptured(const std::string& path, const Semantics&,
                                                      const std::string& method = "forward", const Job& = {});

}  // namespace graft
