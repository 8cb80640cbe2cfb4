// Overlays: what the colours of nodes say on the two canvases of a comparison: their kind, what a rule matches, what a
// rewrite changed, or what was measured.
#pragma once

#include <QJsonObject>

#include "views/canvas/canvas_scene.h"
#include "views/document/compile/kernel_graph.h"
#include "views/document/compile/plan_difference.h"
#include "views/document/document_info.h"
#include "views/drawing/drawing.h"

namespace graft {

/// What colours say besides kind and matches.
enum class Overlay { Kind, Time, Error, Weights, Numbers };

/// The decorations of both canvases: the original's and those of the model as it is now.
struct DecorationPair {
  Decorations before, after;
};

/// What these rewrites removed and added; the rest fades.
void addChanges(DecorationPair&, const std::vector<RecordInfo>&);
/// What differs between two plans: containers of kernels, and nodes that moved. `before`: the containers of that plan.
void addPlanDifference(DecorationPair&, const PlanDifference&, const ContainerNames& before);
/// The nodes that the rule matches, in the colours of its pattern.
void addMatches(Decorations&, const RuleInfo&);
/// The nodes that a kernel computes, in the colours of its code.
void addKernel(Decorations&, const KernelInfo&);
/// The time in each node, in microseconds, as the run measured it.
void addTimes(DecorationPair&, const QJsonObject& run);
/// The RMSE of each value inside against the original's; of a module the largest. Both canvases get the same: one looks
/// for the place where one reads.
void addErrors(DecorationPair&, const QJsonObject& run);
/// The bytes of each node's weights; of a module their sum.
void addWeights(Decorations&, const Graph&);
/// Numbers of the user's own.
void addNumbers(Decorations&, const NodeNumbers&);

}  // namespace graft
