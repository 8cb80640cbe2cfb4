// Sets of tensors made of others, for runs of a part of a model on values that were collected in it.
#pragma once

#include <vector>

#include "core/torch/tensors.h"

namespace graft {

/// All entries of the sets, one set after another, without names.
TensorSet joined(const std::vector<TensorSet>& sets);

}  // namespace graft
