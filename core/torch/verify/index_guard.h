// IndexGuard: keeps inputs that a graph refuses away from a GPU. There, an index out of range is no error of the run
// but the end of the process's use of that GPU. So inputs that verification makes up run on the CPU first, where the
// graph takes indices.
//
//   IndexGuard guard(graph, "cuda");
//   if (guard.refuses(inputs, job)) continue;      // they say nothing
//
// Private to core/torch.
#pragma once

#include <optional>
#include <string>

#include "core/base/progress.h"
#include "core/ir/graph.h"
#include "core/torch/executor.h"

namespace graft {

class IndexGuard {
 public:
  /// The graph must outlive it. `device`: where it would run.
  IndexGuard(const Graph&, const std::string& device);
  /// Never on a CPU, nor where the graph takes no indices. A graph that cannot run on the CPU is trusted.
  bool refuses(const TensorSet& inputs, const Job&);

 private:
  const Graph& g_;
  bool asks_;
  std::optional<Program> onCpu_;
};

}  // namespace graft
