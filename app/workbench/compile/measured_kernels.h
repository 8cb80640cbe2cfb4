// What kernels save, measured in the model: each node's time in a run of the model as it is, beside the kernels' in a
// run of the model with the groups in place.
//
//   auto code = workbench::generatedCode(graph, request, operators, job);
//   measureKernels(graph, request.fusion, inputs, semantics, *code, job);
//   code->kernels[0].measured->operators, code->decisions[0].measured
#pragma once

#include "app/workbench/compile/generated_code.h"
#include "core/ir/semantics.h"
#include "core/torch/tensors.h"
#include "matcher/rule/pattern.h"

namespace graft::workbench {

/// The step fuse() of a recipe, with these options.
Step fuseStep(const FusionOptions&);

/// Adds what was measured to the report of the same options: to each kernel and each call, and to the decisions.
/// Nothing is verified. On the CPU. What is measured has the sizes of `inputs`: bytes are counted with them, too.
/// `triesSchedules`: up to kMostTried other schedules of each kernel are timed as well.
Status measureKernels(const Graph&, const FusionOptions&, const TensorSet& inputs, const Semantics&, CodeReport&,
                      const Job& = {}, bool triesSchedules = false);
inline constexpr size_t kMostTried = 5;

/// The graph with the groups of these options in place; nothing is verified.
Result<Graph> graphWithKernels(const Graph&, const FusionOptions&, const Semantics&);

}  // namespace graft::workbench
