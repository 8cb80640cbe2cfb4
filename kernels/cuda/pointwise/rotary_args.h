// What the kernel of rotary embeddings and that of their gradient are launched with.
#pragma once

#include "kernels/cuda/support.h"

namespace graft::cuda {

/// cos or sin [..., S, D] as a table of 4 dimensions in fp32. Tables in fp32 keep their precision. They are small, and
/// read far more often than converted.
inline at::Tensor rotaryTable(at::Tensor t) {
  while (t.dim() < 4) t = t.unsqueeze(t.dim() == 2 ? 0 : 1);
  return t.scalar_type() == at::kFloat ? t : t.to(at::kFloat);
}

/// `x` and `out` [B, H, S, D] of equal sizes, tables of rotaryTable(), broadcast where a size is 1.
inline RotaryArgs rotaryArgs(const char* op, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                             const at::Tensor& out) {
  RotaryArgs a;
  a.dtype = dtypeOf(op, x);
  a.x = x.const_data_ptr(), a.out = out.mutable_data_ptr();
  a.cos = cos.const_data_ptr(), a.sin = sin.const_data_ptr();
  for (int d = 0; d < 4; ++d) {
    a.size[d] = x.size(d);
    a.xs[d] = x.stride(d), a.os[d] = out.stride(d);
    a.cs[d] = cos.size(d) == 1 ? 0 : cos.stride(d), a.ss[d] = sin.size(d) == 1 ? 0 : sin.stride(d);
  }
  a.pdl = usesPdl();
  return a;
}

}  // namespace graft::cuda
