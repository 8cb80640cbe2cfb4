// LibTorch's answers about operators: the Semantics that importers and the matcher ask, and the types of a whole graph.
//
//   const std::unique_ptr<Semantics> semantics = makeTorchSemantics();
//   Result<Model> m = importModel("minilm.pt", *semantics);
#pragma once

#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"

namespace graft {

/// Takes operators from LibTorch's registries, infers types by running on meta tensors, and folds constants by running
/// on the weights.
std::unique_ptr<Semantics> makeTorchSemantics();

/// Writes the types of all values that follow from those of the inputs (symbolic dimensions allowed), by running the
/// operators on meta tensors. A value whose type only a real run can tell keeps the type it has. An error names the
/// node that refuses its arguments.
Status inferAllTypes(Graph&, const std::vector<Type>& inputTypes);

}  // namespace graft
