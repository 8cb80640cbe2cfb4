// graft::attention on CUDA.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

int asInt(int64_t size) {
  TORCH_CHECK(size <= std::numeric_limits<int>::max(), "graft::attention: a dimension of ", size, " is too large");
  return static_cast<int>(size);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                     std::optional<double> scale, bool causal) {
  ops::checkAttention(q, k, v, mask);
  if (q.dim() == 3) {
    const OptionalTensor wide = given(mask) && mask->dim() == 3 ? OptionalTensor(mask->unsqueeze(1)) : mask;
    return attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), wide, scale, causal).squeeze(1);
  }
  const c10::cuda::CUDAGuard guard(q.device());
  AttentionArgs a;
  a.dtype = dtypeOf("attention", q);
  const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2);
  // The memory is [batch, position, head, dim]: the projection that follows reads it as rows.
  const at::Tensor out = at::empty({batch, queries, heads, v.size(3)}, q.options()).transpose(1, 2);
  if (out.numel() == 0) return out;
  if (keys == 0) {
    out.zero_();
    return out;
  }
  const auto rows = [](const at::Tensor& t) { return t.stride(3) == 1 || t.size(3) == 1 ? t : t.contiguous(); };
  at::Tensor qr = rows(q), kr = rows(k), vr = rows(v), kept;
  a.batch = asInt(batch), a.heads = asInt(heads), a.kvHeads = asInt(k.size(1));
  a.queries = asInt(queries), a.keys = asInt(keys), a.dim = asInt(q.size(3)), a.dimV = asInt(v.size(3));
  a.mask = maskArg(mask, {batch, heads, queries, keys}, kept);
  a.scale = static_cast<float>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(3))));
  a.causal = causal;
  a.pdl = usesPdl();
  const auto fill = [&] {
    a.q = qr.const_data_ptr(), a.k = kr.const_data_ptr(), a.v = vr.const_data_ptr(), a.out = out.mutable_data_ptr();
    for (int d = 0; d < 3; ++d) {
      a.qs[d] = qr.stride(d), a.ks[d] = kr.stride(d), a.vs[d] = vr.stride(d), a.os[d] = out.stride(d);
    }
  };
  fill();
  const auto stream = c10::cuda::getCurrentCUDAStream();
  cudaError_t status = cudaErrorNotSupported;
  const int variant = a.dtype == Dtype::kFloat || !hopper() ? -1 : attentionHopperChoice(a);
  if (variant >= 0) status = launchAttentionHopper(a, variant, stream);
  if (status == cudaErrorNotSupported && a.dtype != Dtype::kFloat) status = launchAttention(a, stream);
  if (status == cudaErrorNotSupported) {
    TORCH_CHECK(a.dim <= 256 && a.dimV <= 256, "graft::attention: head sizes ", a.dim, " and ", a.dimV,
                " are not supported on CUDA; up to 256 are");
    TORCH_CHECK(batch <= 65535 && heads <= 65535, "graft::attention: batch ", batch, " or heads ", heads,
                " above 65535");
    status = launchAttentionPlain(a, stream);
  }
  report("attention", status);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) { m.impl("attention", TORCH_FN(attention)); }

}  // namespace graft::cuda
