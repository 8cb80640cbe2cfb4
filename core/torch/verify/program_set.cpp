#include "core/torch/verify/program_set.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include "core/torch/values/values.h"

namespace graft {

Result<VerificationPrograms> buildVerificationPrograms(const Graph& original, const Graph& rewritten,
                                                       const TensorSet& inputs, Missing missing) {
  RunOptions options;
  options.missing = missing;
  options.device = deviceOf(inputs);
  options.fixedShapes = false;
  auto a = Program::build(original, options);
  if (!a) return a.error();
  auto b = Program::build(rewritten, options);
  if (!b) return b.error();
  VerificationPrograms out{std::move(*a), std::move(*b), std::nullopt};
  options.device = "cpu";
  options.dtype = DType::Float64;
  if (auto r = Program::build(original, options)) out.reference = std::move(*r);
  return out;
}

Result<TensorSet> runSeeded(const Program& p, const TensorSet& inputs, const Job& job) {
  at::manual_seed(verificationSeed);
  return p.run(copyOf(inputs), job);
}

std::optional<TensorSet> runReference(const VerificationPrograms& p, const TensorSet& inputs, const Job& job) {
  if (!p.reference) return std::nullopt;
  auto wide = convert(inputs, "cpu", DType::Float64);
  if (!wide) return std::nullopt;
  auto out = runSeeded(*p.reference, *wide, job);
  return out ? std::optional(std::move(*out)) : std::nullopt;
}

}  // namespace graft
