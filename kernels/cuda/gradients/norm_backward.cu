// The backward pass of LayerNorm and RMSNorm of v = x + input bias + residual.
//
// With u = (v - mean) * rstd and h = grad * weight, the gradient of v is (h - u * mean(h * u) - mean(h)) * rstd,
// without the last mean for RMSNorm. Rows lie in registers; each block goes over many rows, and keeps its threads'
// columns of the sums over rows there. A warp per row (up to 768 half elements), or a block per row (up to 8192); other
// rows take two plainer kernels.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gradients/gradient_launchers.h"

namespace graft::cuda {
namespace {

// The sum of two numbers over the warps of a row. `parts` belongs to this row alone until the next but one.
template <int Warps>
__device__ __forceinline__ float2 rowSums(float2 x, float2* parts) {
  x.x = warpSum(x.x), x.y = warpSum(x.y);
  if constexpr (Warps > 1) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = make_float2(0.f, 0.f);
#pragma unroll
    for (int i = 0; i < Warps; ++i) x.x += parts[i].x, x.y += parts[i].y;
  }
  return x;
}

// Sums: 2 (weight and bias) or 3 (input bias too).
template <class T, int Warps, int Vecs, int V, int Sums>
__global__ void __launch_bounds__(Warps == 1 ? 128 : Warps * 32) normBackward(const NormBackwardArgs a) {
  constexpr int kThreads = Warps * 32, kAtOnce = Warps == 1 ? 4 : 1;  // rows at once
  using Chunk = Vec<T, V>;
  pdlTrigger();
  const int lane = Warps == 1 ? threadIdx.x % 32 : threadIdx.x, mine = Warps == 1 ? threadIdx.x / 32 : 0;
  __shared__ float2 parts[2][Warps];
  const float inverse = 1.f / static_cast<float>(a.n);
  const auto column = [&](int c) { return int64_t{c * kThreads + lane} * V; };
  float sums[Sums][Vecs * V];
#pragma unroll
  for (int s = 0; s < Sums; ++s) {
#pragma unroll
    for (int i = 0; i < Vecs * V; ++i) sums[s][i] = 0.f;
  }
  pdlWait();
  const auto load = [&](const void* from, Chunk(&to)[Vecs]) {
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      if (from && column(c) < a.n) to[c] = *reinterpret_cast<const Chunk*>(static_cast<const T*>(from) + column(c));
    }
  };
  int turn = 0;
  for (int64_t row = int64_t{blockIdx.x} * kAtOnce + mine; row < a.rows;
       row += int64_t{gridDim.x} * kAtOnce, turn ^= 1) {
    // Weight and input bias come from the L1 again: in registers, converted, they would leave too few for the sums.
    Chunk grad[Vecs], x[Vecs], other[Vecs], onward[Vecs], weight[Vecs], inputBias[Vecs];
    load(static_cast<const T*>(a.grad) + row * a.ldg, grad);
    load(static_cast<const T*>(a.x) + row * a.ldx, x);
    load(a.residual ? static_cast<const T*>(a.residual) + row * a.ldr : nullptr, other);
    load(a.gradSum ? static_cast<const T*>(a.gradSum) + row * a.lds : nullptr, onward);
    load(a.weight, weight);
    load(a.inputBias, inputBias);
    const float mean = a.mean ? a.mean[row] : 0.f, rstd = a.rstd[row];
    float u[Vecs * V], h[Vecs * V];
    float2 total = make_float2(0.f, 0.f);
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      const bool there = column(c) < a.n;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const int k = c * V + i;
        u[k] = h[k] = 0.f;
        if (!there) continue;
        float v = toFloat(x[c].v[i]);
        if (a.inputBias) v += toFloat(inputBias[c].v[i]);
        if (a.residual) v += toFloat(other[c].v[i]);
        const float g = toFloat(grad[c].v[i]);
        u[k] = (v - mean) * rstd;
        h[k] = a.weight ? g * toFloat(weight[c].v[i]) : g;
        sums[0][k] += g * u[k];
        sums[1][k] += g;
        total.x += h[k] * u[k];
        total.y += h[k];
      }
    }
    total = rowSums<Warps>(total, parts[turn]);
    total.x *= inverse;
    total.y = a.mean ? total.y * inverse : 0.f;
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      if (column(c) >= a.n) continue;
      float d[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const int k = c * V + i;
        d[i] = (h[k] - u[k] * total.x - total.y) * rstd;
        if (a.gradSum) d[i] += toFloat(onward[c].v[i]);
        if constexpr (Sums > 2) sums[2][k] += d[i];
      }
      if (a.dsum) storeVec<T, V>(static_cast<T*>(a.dsum) + row * a.n + column(c), d);
    }
  }
  if (!a.partials) return;
  if constexpr (Warps == 1) {  // the warps' sums become the block's
    __shared__ float all[4][32 * Vecs * V];
#pragma unroll
    for (int s = 0; s < Sums; ++s) {
      __syncthreads();
#pragma unroll
      for (int c = 0; c < Vecs; ++c) {
#pragma unroll
        for (int i = 0; i < V; ++i) all[mine][(c * 32 + lane) * V + i] = sums[s][c * V + i];
      }
      __syncthreads();
      float* to = a.partials + (int64_t{s} * a.parts + blockIdx.x) * a.n;
      for (int64_t i = threadIdx.x; i < a.n; i += 128) to[i] = (all[0][i] + all[1][i]) + (all[2][i] + all[3][i]);
    }
  } else {
#pragma unroll
    for (int s = 0; s < Sums; ++s) {
      float* to = a.partials + (int64_t{s} * a.parts + blockIdx.x) * a.n;
#pragma unroll
      for (int c = 0; c < Vecs; ++c) {
        if (column(c) >= a.n) continue;
#pragma unroll
        for (int i = 0; i < V; ++i) to[column(c) + i] = sums[s][c * V + i];
      }
    }
  }
}

template <class T>
struct AnyRow {
  const NormBackwardArgs& a;
  __device__ __forceinline__ float normed(int64_t row, int64_t i) const {
    float v = toFloat(static_cast<const T*>(a.x)[row * a.ldx + i]);
    if (a.inputBias) v += toFloat(static_cast<const T*>(a.inputBias)[i]);
    if (a.residual) v += toFloat(static_cast<const T*>(a.residual)[row * a.ldr + i]);
    return (v - (a.mean ? a.mean[row] : 0.f)) * a.rstd[row];
  }
  __device__ __forceinline__ float grad(int64_t row, int64_t i) const {
    return toFloat(static_cast<const T*>(a.grad)[row * a.ldg + i]);
  }
  __device__ __forceinline__ float weighted(int64_t row, int64_t i) const {
    const float g = grad(row, i);
    return a.weight ? g * toFloat(static_cast<const T*>(a.weight)[i]) : g;
  }
};

// Any n, stride and alignment. A block has `part` of the rows for the whole of the sums; each thread has its columns,
// and the block reads a row once for the two means and once more for the gradient.
template <class T>
__global__ void __launch_bounds__(256) normBackwardAny(const NormBackwardArgs a) {
  pdlTrigger();
  pdlWait();
  __shared__ float2 parts[2][8];
  const AnyRow<T> at{a};
  for (int s = 0; a.partials && s < 3; ++s) {
    float* to = a.partials + (int64_t{s} * a.parts + blockIdx.x) * a.n;
    for (int64_t i = threadIdx.x; i < a.n; i += 256) to[i] = 0.f;
  }
  int turn = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    float2 total = make_float2(0.f, 0.f);
    for (int64_t i = threadIdx.x; i < a.n; i += 256) {
      const float h = at.weighted(row, i);
      total.x += h * at.normed(row, i);
      total.y += h;
    }
    total = rowSums<8>(total, parts[turn]);
    total.x /= a.n;
    total.y = a.mean ? total.y / a.n : 0.f;
    for (int64_t i = threadIdx.x; i < a.n; i += 256) {
      const float u = at.normed(row, i);
      float d = (at.weighted(row, i) - u * total.x - total.y) * a.rstd[row];
      if (a.gradSum) d += toFloat(static_cast<const T*>(a.gradSum)[row * a.lds + i]);
      if (a.dsum) static_cast<T*>(a.dsum)[row * a.n + i] = fromFloat<T>(d);
      if (!a.partials) continue;
      float* to = a.partials + int64_t{blockIdx.x} * a.n + i;
      const int64_t step = int64_t{a.parts} * a.n;
      to[0] += at.grad(row, i) * u;
      to[step] += at.grad(row, i);
      to[2 * step] += d;
    }
  }
}

template <class T, int Warps, int Vecs, int V>
cudaError_t launchRows(const NormBackwardArgs& a, cudaStream_t stream) {
  const unsigned threads = Warps == 1 ? 128 : Warps * 32;
  const auto kernel = a.inputBiasSums ? normBackward<T, Warps, Vecs, V, 3> : normBackward<T, Warps, Vecs, V, 2>;
  return launch(kernel, static_cast<unsigned>(a.parts), threads, 0, stream, a.pdl, a);
}

template <class T>
cudaError_t run(const NormBackwardArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  const bool vectors = a.n % V == 0 && a.ldg % V == 0 && a.ldx % V == 0 && (!a.residual || a.ldr % V == 0) &&
                       (!a.gradSum || a.lds % V == 0) && aligned(a.grad, 16) && aligned(a.gradSum, 16) &&
                       aligned(a.x, 16) && aligned(a.residual, 16) && aligned(a.inputBias, 16) &&
                       aligned(a.weight, 16) && aligned(a.dsum, 16);
  if (vectors && a.n <= 32 * V) return launchRows<T, 1, 1, V>(a, stream);
  if (vectors && a.n <= 96 * V) return launchRows<T, 1, 3, V>(a, stream);
  if (vectors && a.n <= 128 * V) return launchRows<T, 4, 1, V>(a, stream);
  if (vectors && a.n <= 256 * V) return launchRows<T, 4, 2, V>(a, stream);
  if (vectors && a.n <= 512 * V) return launchRows<T, 8, 2, V>(a, stream);
  if (vectors && a.n <= 1024 * V) return launchRows<T, 16, 2, V>(a, stream);
  return launch(normBackwardAny<T>, static_cast<unsigned>(a.parts), 256, 0, stream, a.pdl, a);
}

}  // namespace

cudaError_t launchNormBackward(const NormBackwardArgs& a, cudaStream_t stream) {
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
