// The graph as a drawing by kernels shows it: the same nodes under the same names, but what one kernel computes is one
// container, and modules are none. For drawing alone: the engine never sees it.
//
//   canvas->setGraph(graphByKernels(*document.graph(), plan));
#pragma once

#include <memory>
#include <string>

#include "core/ir/graph.h"

namespace graft {

struct CompilePlan;
struct KernelInfo;

/// The path of the container that stands for the kernel.
std::string containerOf(const KernelInfo&);
std::shared_ptr<const Graph> graphByKernels(const Graph&, const CompilePlan&);

}  // namespace graft
