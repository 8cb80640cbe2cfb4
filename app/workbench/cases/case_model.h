// From a case to a model that runs: weights with numbers, types inferred, inputs to run it on.
#pragma once

#include "app/workbench/cases/case_text.h"
#include "core/ir/semantics.h"
#include "core/torch/tensors.h"

namespace graft::workbench {

/// The case's function as a model: weights where it says so, types known. BadInput where it is none.
Result<Graph> modelOf(const Case&, const Semantics&);
Result<TensorSet> inputsOf(const Case&, const Graph& model);

}  // namespace graft::workbench
