// From a case to a model that runs (app/workbench/cases), for tests.
#pragma once

#include "app/workbench/cases/case_model.h"
#include "case_file.h"
#include "core/ir/semantics.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "core/torch/tensors.h"

namespace graft::test {

/// LibTorch's, with graft's own operators loaded.
inline const Semantics& semantics() {
  static const std::unique_ptr<Semantics> s = [] {
    const Status loaded = loadOperatorLibrary();
    if (!loaded) throw std::runtime_error(loaded.error().format());
    return makeTorchSemantics();
  }();
  return *s;
}
inline Graph modelOf(const Case& c) { return take(workbench::modelOf(c, semantics())); }
inline TensorSet inputsOf(const Case& c, const Graph& model) { return take(workbench::inputsOf(c, model)); }

}  // namespace graft::test
