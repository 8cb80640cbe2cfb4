// graft::rotary_embedding and swiglu on CUDA.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/pointwise/rotary_args.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  at::Tensor out = at::empty_like(x);
  if (out.numel() == 0) return out;
  const RotaryArgs a = rotaryArgs("rotary_embedding", x, cos, sin, out);
  report("rotary_embedding", launchRotary(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::tuple<at::Tensor, at::Tensor> rotaryEmbedding(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                                   const at::Tensor& sin) {
  ops::checkRotary(q, k, cos, sin);
  dtypeOf("rotary_embedding", q);
  const c10::cuda::CUDAGuard guard(q.device());
  const at::Tensor c = rotaryTable(cos), s = rotaryTable(sin);
  return {rotated(q, c, s), rotated(k, c, s)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (ops::areToBroadcast(gate, up)) return std::apply(swiglu, ops::broadcastTogether(gate, up));
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
