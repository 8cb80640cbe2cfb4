#include "kernels/cpu/layer_norm.h"

#include <ATen/ops/empty.h>

#include "kernels/cpu/support.h"

namespace graft::ops {

at::Tensor layerNormForward(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                            const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  if (out.numel() == 0) return out;
  const at::Tensor rows = dense(x);
  const at::Tensor added = given(residual) ? dense(residual->expand_as(x)) : at::Tensor();
  const at::Tensor w = floats(weight), b = floats(bias), ib = floats(inputBias);
  NormArgs args;
  args.scalar = scalarOf(x);
  args.x = rows.const_data_ptr();
  args.residual = added.defined() ? added.const_data_ptr() : nullptr;
  args.inputBias = floatsOf(ib);
  args.weight = floatsOf(w);
  args.bias = floatsOf(b);
  args.out = out.mutable_data_ptr();
  args.columns = x.size(-1);
  args.eps = static_cast<float>(eps);
  at::parallel_for(0, out.numel() / args.columns, grain(args.columns), [&](int64_t begin, int64_t end) {
    NormArgs mine = args;
    mine.scratch = scratch(args.columns);
    loops().layerNorm(mine, begin, end);
  });
  return out;
}

}  // namespace graft::ops
