// graft::add_rms_norm
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>

#include <tuple>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/gradients.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo info{
    "add_rms_norm",
    "add_rms_norm(Tensor x, Tensor? residual, Tensor? weight, float eps=1e-06) -> (Tensor normed, Tensor sum)",
    "sum = x + residual; normed = sum / sqrt(mean(sum^2) + eps) * weight over the last dimension, in fp32 throughout. "
    "x and the residual broadcast. Both "
    "are returned, contiguous, for the residual stream goes on from sum. Without a residual, sum is a copy of x.",
    "any strides; contiguous inputs are read in place"};

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair composite(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps) {
  if (widerThan(x, residual)) return composite(withRowsOf(residual, x), residual, weight, eps);
  checkNorm(info.name, x, residual, weight, {}, {});
  const at::ScalarType compute = computeType(x);
  at::Tensor sum = given(residual) ? x.to(compute) + residual->to(compute) : x.to(compute);
  const at::Tensor scale = at::rsqrt(at::mean(sum * sum, {-1}, /*keepdim=*/true) + eps);
  at::Tensor normed = sum * scale;
  if (given(weight)) normed = normed * weight->to(compute);
  sum = given(residual) ? sum.to(x.scalar_type()).contiguous() : x.clone(at::MemoryFormat::Contiguous);
  return {normed.to(x.scalar_type()).contiguous(), sum};
}

Pair cpu(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps) {
  if (widerThan(x, residual)) return cpu(withRowsOf(residual, x), residual, weight, eps);
  if (!hasLoops(x)) return composite(x, residual, weight, eps);
  checkNorm(info.name, x, residual, weight, {}, {});
  at::Tensor normed = at::empty(x.sizes(), x.options());
  at::Tensor sum = at::empty(x.sizes(), x.options());
  if (normed.numel() == 0) return {normed, sum};
  const at::Tensor rows = dense(x);
  const at::Tensor added = given(residual) ? dense(residual->expand_as(x)) : at::Tensor();
  const at::Tensor w = floats(weight);
  NormArgs args;
  args.scalar = scalarOf(x);
  args.x = rows.const_data_ptr();
  args.residual = added.defined() ? added.const_data_ptr() : nullptr;
  args.weight = floatsOf(w);
  args.sum = sum.mutable_data_ptr();
  args.out = normed.mutable_data_ptr();
  args.columns = x.size(-1);
  args.eps = static_cast<float>(eps);
  at::parallel_for(0, normed.numel() / args.columns, grain(args.columns), [&](int64_t begin, int64_t end) {
    NormArgs mine = args;
    mine.scratch = scratch(args.columns);
    loops().rmsNorm(mine, begin, end);
  });
  return {normed, sum};
}

Pair meta(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps) {
  if (widerThan(x, residual)) return meta(withRowsOf(residual, x), residual, weight, eps);
  checkNorm(info.name, x, residual, weight, {}, {});
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) { defineOperator<info, composite, addRmsNormTrained>(m, cpu, meta); }

}  // namespace graft::ops
