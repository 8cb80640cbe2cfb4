// What may be done to all tensors of a set at once: the nested ones of lists, tuples and dictionaries too.
// Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>

#include "core/torch/tensors.h"

namespace graft {

/// The same values with every tensor, nested ones too, replaced by f of it.
TensorSet mapTensors(const TensorSet&, const std::function<at::Tensor(const at::Tensor&)>& f);
/// A model may write to its inputs: every run gets its own.
TensorSet copyOf(const TensorSet&);

/// "cpu", or the device that some tensor is on.
std::string deviceOf(const TensorSet&);

}  // namespace graft
