// findOverflow for whoever has the programs already.
//
// Private to core/torch/verify.
#pragma once

#include <optional>

#include "core/torch/verification.h"
#include "core/torch/verify/program_set.h"

namespace graft {

/// Runs the original and its reference once more.
std::optional<Overflow> findOverflow(const Graph& original, VerificationPrograms&, const TensorSet& inputs);

}  // namespace graft
