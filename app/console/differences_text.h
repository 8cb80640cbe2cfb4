// Numerical differences as tables, the same in every command.
//
//   console.print(differencesTable(verification.outputs));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/console/console.h"
#include "core/torch/tensors.h"
#include "core/torch/verification.h"

namespace graft::cli {

/// A row for each output. `onPurpose`: the rules that were applied mean to change the numbers.
std::string differencesTable(const std::vector<Difference>&, bool onPurpose = false);
/// Warns of outputs that are NaN or infinite on both sides: nothing, or not all, of them was compared.
void warnOfNotCompared(const std::vector<Difference>&, const std::optional<Overflow>&, const Console&);
/// What corresponds inside two models, up to a little behind the first place where their numbers part, and where that
/// is.
std::string layersText(const std::vector<LayerDifference>&);

}  // namespace graft::cli
