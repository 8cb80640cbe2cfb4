// What proofs and comparisons of layers share: the original, the rewritten and the reference program, and runs of them
// that neither disturb their inputs nor each other's random numbers.
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>

#include "core/torch/executor.h"

namespace graft {

constexpr uint64_t proofSeed = 20260117;

/// The same values with every tensor, nested ones too, replaced by f of it.
TensorSet mapTensors(const TensorSet&, const std::function<at::Tensor(const at::Tensor&)>& f);
/// A model may write to its inputs: every run gets its own.
TensorSet copyOf(const TensorSet&);

/// "cpu", or the device that some tensor is on.
std::string deviceOf(const TensorSet&);

struct ProofPrograms {
  Program original, rewritten;
  std::optional<Program> reference;  ///< the original in fp64 on the CPU; none where an operator has no such version
};
/// On the device that the inputs are on.
Result<ProofPrograms> buildProofPrograms(const Graph& original, const Graph& rewritten, const TensorSet& inputs);

/// Random operators draw the same numbers in every program: the rewriter keeps their order.
Result<TensorSet> runSeeded(const Program&, const TensorSet& inputs, const Job&);
/// The original in double precision; nothing where it does not run so (the dtypes' tolerances judge then).
std::optional<TensorSet> runReference(const ProofPrograms&, const TensorSet& inputs, const Job&);

}  // namespace graft
