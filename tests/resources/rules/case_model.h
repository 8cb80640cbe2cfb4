// From a case to a model that runs: weights with numbers, types inferred, inputs to run it on.
#pragma once

#include <stdexcept>

#include "case_file.h"
#include "core/ir/semantics.h"
#include "core/torch/tensors.h"

namespace graft::test {

template <class T>
T take(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().format());
  return std::move(r).value();
}

/// LibTorch's, with graft's own operators loaded.
const Semantics& semantics();
Graph modelOf(const Case& c);
TensorSet inputsOf(const Case& c, const Graph& model);

}  // namespace graft::test
