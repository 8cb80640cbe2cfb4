// graft::rotary_embedding and swiglu on CUDA.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  at::Tensor out = at::empty_like(x);
  if (out.numel() == 0) return out;
  RotaryArgs a;
  a.dtype = dtypeOf("rotary_embedding", x);
  a.x = x.const_data_ptr(), a.out = out.mutable_data_ptr();
  a.cos = cos.const_data_ptr(), a.sin = sin.const_data_ptr();
  for (int d = 0; d < 4; ++d) {
    a.size[d] = x.size(d);
    a.xs[d] = x.stride(d), a.os[d] = out.stride(d);
    a.cs[d] = cos.size(d) == 1 ? 0 : cos.stride(d), a.ss[d] = sin.size(d) == 1 ? 0 : sin.stride(d);
  }
  a.pdl = usesPdl();
  report("rotary_embedding", launchRotary(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::tuple<at::Tensor, at::Tensor> rotaryEmbedding(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                                   const at::Tensor& sin) {
  ops::checkRotary(q, k, cos, sin);
  dtypeOf("rotary_embedding", q);
  const c10::cuda::CUDAGuard guard(q.device());
  const auto table = [](at::Tensor t) {
    while (t.dim() < 4) t = t.unsqueeze(t.dim() == 2 ? 0 : 1);
    // Tables in fp32 keep their precision. They are small, and read far more often than converted.
    return t.scalar_type() == at::kFloat ? t : t.to(at::kFloat);
  };
  const at::Tensor c = table(cos), s = table(sin);
  return {rotated(q, c, s), rotated(k, c, s)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  ops::checkSwiglu(gate, up);
  const c10::cuda::CUDAGuard guard(gate.device());
  SwigluArgs a;
  a.dtype = dtypeOf("swiglu", gate);
  at::Tensor out = at::empty(gate.sizes(), gate.options());
  if (out.numel() == 0) return out;
  const Rows g = asRows(gate.dim() ? gate : gate.unsqueeze(0)), u = asRows(up.dim() ? up : up.unsqueeze(0));
  a.gate = g.tensor.const_data_ptr(), a.ldg = g.stride;
  a.up = u.tensor.const_data_ptr(), a.ldu = u.stride;
  a.out = out.mutable_data_ptr();
  a.rows = g.rows, a.n = g.columns;
  a.pdl = usesPdl();
  report("swiglu", launchSwiglu(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("rotary_embedding", &CompositeFallback<"rotary_embedding", rotaryEmbedding>::call);
  m.impl("swiglu", &CompositeFallback<"swiglu", swiglu>::call);
}

}  // namespace graft::cuda
