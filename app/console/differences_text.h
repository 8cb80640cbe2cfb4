// Numerical differences as tables, the same in every command.
//
//   console.print(differencesTable(verification.outputs));
#pragma once

#include <string>
#include <vector>

#include "core/torch/tensors.h"
#include "core/torch/verification.h"

namespace graft::cli {

/// A row for each output. `onPurpose`: the rules that were applied mean to change the numbers.
std::string differencesTable(const std::vector<Difference>&, bool onPurpose = false);
/// What corresponds inside two models, up to a little behind the first place where their numbers part, and where that
/// is.
std::string layersText(const std::vector<LayerDifference>&);

}  // namespace graft::cli
