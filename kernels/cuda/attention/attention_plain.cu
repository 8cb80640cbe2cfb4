// Attention for inputs that attention.cu does not take: fp32, any stride, any head size up to 256. Simple rather than
// fast: a warp per query, an online softmax over 32 keys at a time, all in fp32.
#include "kernels/cuda/attention/mask.cuh"
#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

constexpr int kMaxDim = 256, kWarps = 4;

template <class T>
__global__ void __launch_bounds__(kWarps * 32) plain(const AttentionArgs a) {
  __shared__ float query[kWarps][kMaxDim];
  pdlTrigger();
  pdlWait();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x * kWarps + warp, head = blockIdx.y, batch = blockIdx.z;
  if (row >= a.queries) return;
  const int kvHead = head / (a.heads / a.kvHeads);
  const T* q = static_cast<const T*>(a.q) + batch * a.qs[0] + head * a.qs[1] + row * a.qs[2];
  const T* k = static_cast<const T*>(a.k) + batch * a.ks[0] + kvHead * a.ks[1];
  const T* v = static_cast<const T*>(a.v) + batch * a.vs[0] + kvHead * a.vs[1];
  const int64_t maskRow = batch * a.mask.stride[0] + head * a.mask.stride[1] + row * a.mask.stride[2];
  for (int i = lane; i < a.dim; i += 32) query[warp][i] = toFloat(q[i]);
  __syncwarp();
  float o[kMaxDim / 32] = {}, top = -INFINITY, sum = 0.f;
  const int keys = a.causal ? min(a.keys, row + 1) : a.keys;
  for (int base = 0; base < keys; base += 32) {
    const int key = base + lane;
    float s = -INFINITY;
    if (key < keys) {
      s = 0.f;
      for (int i = 0; i < a.dim; ++i) s += query[warp][i] * toFloat(k[key * a.ks[2] + i]);
      s = s * a.scale + loadMask(a.mask, maskRow + key * a.mask.stride[3]);
    }
    const float high = fmaxf(top, warpMax(s));
    const float from = high == -INFINITY ? 0.f : high;
    const float shrink = expf(top - from), p = expf(s - from);
    top = high;
    sum = sum * shrink + warpSum(p);
#pragma unroll
    for (int c = 0; c < kMaxDim / 32; ++c) o[c] *= shrink;
    const int count = min(32, keys - base);
    for (int j = 0; j < count; ++j) {
      const float pj = __shfl_sync(~0u, p, j);
#pragma unroll
      for (int c = 0; c < kMaxDim / 32; ++c) {
        if (c * 32 + lane < a.dimV) o[c] += pj * toFloat(v[(base + j) * a.vs[2] + c * 32 + lane]);
      }
    }
  }
  const float inverse = sum == 0.f ? 0.f : 1.f / sum;
  T* out = static_cast<T*>(a.out) + batch * a.os[0] + head * a.os[1] + row * a.os[2];
#pragma unroll
  for (int c = 0; c < kMaxDim / 32; ++c) {
    if (c * 32 + lane < a.dimV) out[c * 32 + lane] = fromFloat<T>(o[c] * inverse);
  }
}

template <class T>
cudaError_t run(const AttentionArgs& a, cudaStream_t stream) {
  return launch(plain<T>, dim3((a.queries + kWarps - 1) / kWarps, a.heads, a.batch), kWarps * 32, 0, stream, a.pdl, a);
}

}  // namespace

cudaError_t launchAttentionPlain(const AttentionArgs& a, cudaStream_t stream) {
  if (a.dim > kMaxDim || a.dimV > kMaxDim || a.heads % a.kvHeads || a.batch > 65535 || a.heads > 65535)
    return cudaErrorNotSupported;
  if (a.batch == 0 || a.heads == 0 || a.queries == 0) return cudaSuccess;
  switch (a.dtype) {
    case Dtype::kFloat:
      return run<float>(a, stream);
    case Dtype::kHalf:
      return run<__half>(a, stream);
    case Dtype::kBfloat16:
      return run<__nv_bfloat16>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
