// What verifications and comparisons of layers share: the original, the rewritten and the reference program. A run of
// one changes neither its inputs nor the random numbers that another draws.
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <optional>

#include "core/torch/executor.h"
#include "core/torch/values/tensor_sets.h"

namespace graft {

constexpr uint64_t verificationSeed = 20260117;

struct VerificationPrograms {
  Program original, rewritten;
  std::optional<Program> reference;  ///< the original in fp64 on the CPU; none where an operator has no such version
};
/// On the device that the inputs are on.
Result<VerificationPrograms> buildVerificationPrograms(const Graph& original, const Graph& rewritten,
                                                       const TensorSet& inputs, Missing missing = Missing::Refused);

/// Random operators draw the same numbers in every program: the rewriter keeps their order.
Result<TensorSet> runSeeded(const Program&, const TensorSet& inputs, const Job&);
/// The original in double precision; nothing where it does not run so (the dtypes' tolerances judge then).
std::optional<TensorSet> runReference(const VerificationPrograms&, const TensorSet& inputs, const Job&);

}  // namespace graft
