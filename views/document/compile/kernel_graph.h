// The graph as a drawing by kernels shows it: the same nodes under the same names, but what one kernel computes is one
// container, and modules are none. For drawing alone: the engine never sees it.
//
//   canvas->setGraph(graphByKernels(*document.graph(), plan));
//   before->setGraph(graphByKernels(*document.graph(), other, containersBeside(difference, other)));
#pragma once

#include <QHash>
#include <QString>
#include <memory>
#include <string>

#include "core/ir/graph.h"

namespace graft {

struct CompilePlan;
struct KernelInfo;
struct PlanDifference;

/// The path of the container that stands for the kernel.
std::string containerOf(const QString& kernel);
std::string containerOf(const KernelInfo&);
/// Paths by the names of kernels; of those that it leaves out, the ones above.
using ContainerNames = QHash<QString, std::string>;
/// For the drawing of the plan before, beside the plan now: a kernel that is the same has the same path in both, and
/// another one has the path of none.
ContainerNames containersBeside(const PlanDifference&, const CompilePlan& before);
std::shared_ptr<const Graph> graphByKernels(const Graph&, const CompilePlan&, const ContainerNames& = {});

}  // namespace graft
