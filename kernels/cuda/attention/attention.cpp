// graft::attention on CUDA.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "kernels/cuda/attention/attention_call.h"
#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

int asInt(int64_t size) {
  TORCH_CHECK(size <= std::numeric_limits<int>::max(), "graft::attention: a dimension of ", size, " is too large");
  return static_cast<int>(size);
}

// A mask by query and key that Hopper's kernel cannot read as it lies (rows of an odd length, truth values) becomes a
// tensor that it can. Without that, the other kernel takes four times as long. A mask in fp32 stays as it is: the type
// of q may not hold its values.
void layMaskOut(AttentionArgs& a, const at::Tensor& q, at::Tensor& kept, cudaStream_t stream) {
  const MaskKind half = a.dtype == Dtype::kHalf ? MaskKind::kHalf : MaskKind::kBfloat16;
  const int64_t(&s)[4] = a.mask.stride;
  if (a.mask.kind != half && a.mask.kind != MaskKind::kBool) return;
  if (s[2] == 0) return;  // by key
  const bool isAligned = reinterpret_cast<uintptr_t>(a.mask.data) % 16 == 0 && s[0] % 8 == 0 && s[1] % 8 == 0 &&
                         s[2] % 8 == 0 && s[2] >= a.keys && s[3] == 1;
  if (isAligned && a.mask.kind == half) return;
  MaskRowsArgs rows;
  rows.mask = a.mask, rows.dtype = a.dtype, rows.pdl = a.pdl;
  rows.batch = s[0] ? a.batch : 1, rows.heads = s[1] ? a.heads : 1, rows.queries = a.queries, rows.keys = a.keys;
  rows.rowStride = (a.keys + 7) / 8 * int64_t{8};
  const at::Tensor out = at::empty({rows.batch, rows.heads, rows.queries, rows.rowStride}, q.options());
  rows.out = out.mutable_data_ptr();
  report("attention", launchMaskRows(rows, stream));
  kept = out;
  a.mask = {out.const_data_ptr(), half, {s[0] ? out.stride(0) : 0, s[1] ? out.stride(1) : 0, rows.rowStride, 1}};
}

}  // namespace

AttentionCall::AttentionCall(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                             const OptionalTensor& mask4, std::optional<double> scale, bool causal) {
  const c10::SymInt batch = ops::attentionBatch(query, key, value, mask4);
  const auto rows = [&](const at::Tensor& t) {
    return ops::withBatch(t.stride(3) == 1 || t.size(3) == 1 ? t : t.contiguous(), batch);
  };
  q = rows(query), k = rows(key), v = rows(value);
  AttentionArgs& a = args;
  a.dtype = dtypeOf("attention", q);
  a.batch = asInt(q.size(0)), a.heads = asInt(q.size(1)), a.kvHeads = asInt(k.size(1));
  a.queries = asInt(q.size(2)), a.keys = asInt(k.size(2)), a.dim = asInt(q.size(3)), a.dimV = asInt(v.size(3));
  a.mask = maskArg(mask4, {q.size(0), q.size(1), q.size(2), k.size(2)}, mask);
  a.scale = static_cast<float>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(3))));
  a.causal = causal;
  a.pdl = usesPdl();
  a.q = q.const_data_ptr(), a.k = k.const_data_ptr(), a.v = v.const_data_ptr();
  for (int d = 0; d < 3; ++d) a.qs[d] = q.stride(d), a.ks[d] = k.stride(d), a.vs[d] = v.stride(d);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                     std::optional<double> scale, bool causal) {
  ops::checkAttention(q, k, v, mask);
  if (q.dim() == 3) {
    const OptionalTensor wide = given(mask) && mask->dim() == 3 ? OptionalTensor(mask->unsqueeze(1)) : mask;
    return attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), wide, scale, causal).squeeze(1);
  }
  const c10::cuda::CUDAGuard guard(q.device());
  dtypeOf("attention", q);
  // In memory the output is [batch, position, head, dim], so that the projection after it reads rows.
  const int64_t batch = ops::attentionBatch(q, k, v, mask).expect_int();
  const at::Tensor out = at::empty({batch, q.size(2), q.size(1), v.size(3)}, q.options()).transpose(1, 2);
  if (out.numel() == 0) return out;
  if (k.size(2) == 0) {
    out.zero_();
    return out;
  }
  AttentionCall call(q, k, v, mask, scale, causal);
  AttentionArgs& a = call.args;
  a.out = out.mutable_data_ptr();
  for (int d = 0; d < 3; ++d) a.os[d] = out.stride(d);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  cudaError_t status = cudaErrorNotSupported;
  const int variant = a.dtype == Dtype::kFloat || !hopper() ? -1 : attentionHopperChoice(a);
  if (variant >= 0) {
    layMaskOut(a, call.q, call.mask, stream);
    status = launchAttentionHopper(a, variant, stream);
  }
  if (status == cudaErrorNotSupported && a.dtype != Dtype::kFloat) status = launchAttention(a, stream);
  if (status == cudaErrorNotSupported) {
    if (a.dim > 256 || a.dimV > 256 || a.batch > 65535 || a.heads > 65535)
      return CompositeFallback<"attention", attention>::composite(q, k, v, mask, scale, causal);
    status = launchAttentionPlain(a, stream);
  }
  report("attention", status);
  return out;
}

TORCH_LIBRARY_IMPL(graft, CUDA, m) { m.impl("attention", &CompositeFallback<"attention", attention>::call); }

}  // namespace graft::cuda
