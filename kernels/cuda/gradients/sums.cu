// Sums over the rows of a matrix, for the gradients of biases: of the gradient itself, or of it times the derivative of
// an activation, which is written too.
//
// A block is 8 warps, each on a row of 32 * V columns; blocks of rows along y. The second kernel adds the blocks' sums.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gradients/gradient_launchers.h"

namespace graft::cuda {
namespace {

constexpr int kWarps = 8;

// activation'(z) * g. For what will be rounded to a half type the exact GELU's distribution function comes from
// common.cuh's polynomial.
template <class T, Activation A>
__device__ __forceinline__ float derivative(float z, float g) {
  if constexpr (A == Activation::kRelu) return z <= 0.f ? 0.f : g;  // NaN passes g, as in PyTorch
  if constexpr (A == Activation::kGelu) {
    float phi;
    if constexpr (sizeof(T) == 2) {
      phi = z < -7.f ? 0.f : __fdividef(1.f, 1.f + geluExponential(z));
    } else {
      phi = 0.5f * (1.f + erff(z * 0.70710678118654752f));
    }
    // z * exp(-z^2 / 2) / sqrt(2 pi). Beyond 14 it is zero in fp32; clamping avoids infinity * 0.
    const float c = fminf(fmaxf(z, -14.f), 14.f);
    const float density = 0.39894228040143268f * exp2Fast(-0.72134752044448170f * c * c);
    return g * fmaf(c, density, z != z ? z : phi);
  }
  if constexpr (A == Activation::kGeluTanh) {
    const float c = fminf(fmaxf(z, -20.f), 20.f), square = c * c;
    const float inner = 0.79788456080286536f * c * fmaf(0.044715f, square, 1.f);
    const float slope = 0.79788456080286536f * fmaf(3.f * 0.044715f, square, 1.f);
    float t;
    if constexpr (sizeof(T) == 2) {
      t = 1.f - __fdividef(2.f, 1.f + __expf(2.f * inner));
    } else {
      t = tanhf(inner);
    }
    const float d = 0.5f * (1.f + t) + 0.5f * c * (1.f - t * t) * slope;
    return g * (z != z ? z : d);
  }
  if constexpr (A == Activation::kSilu) {
    const float c = fminf(fmaxf(z, -80.f), 80.f);
    const float s = 1.f / (1.f + expf(-c));
    return g * (z != z ? z : s * (1.f + c * (1.f - s)));
  }
  return g;
}

template <class T, int V, Activation A>
__global__ void __launch_bounds__(kWarps * 32) activationBackward(const ActivationBackwardArgs a) {
  pdlTrigger();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = (int64_t{blockIdx.x} * 32 + lane) * V;
  const bool there = column < a.n;
  float sums[V];
#pragma unroll
  for (int i = 0; i < V; ++i) sums[i] = 0.f;
  pdlWait();
  if (there) {
    const int64_t step = int64_t{gridDim.y} * kWarps;
#pragma unroll 2
    for (int64_t row = int64_t{blockIdx.y} * kWarps + warp; row < a.rows; row += step) {
      float g[V];
      loadVec<T, V>(static_cast<const T*>(a.grad) + row * a.ldg + column, g);
      if constexpr (A != Activation::kNone) {
        float z[V];
        loadVec<T, V>(static_cast<const T*>(a.z) + row * a.ldz + column, z);
#pragma unroll
        for (int i = 0; i < V; ++i) g[i] = derivative<T, A>(z[i], g[i]);
        storeVec<T, V>(static_cast<T*>(a.dz) + row * a.n + column, g);
      }
#pragma unroll
      for (int i = 0; i < V; ++i) sums[i] += g[i];
    }
  }
  if (!a.partials) return;
  __shared__ float all[kWarps][32 * V];
#pragma unroll
  for (int i = 0; i < V; ++i) all[warp][lane * V + i] = sums[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * V; i += kWarps * 32) {
    const int64_t c = int64_t{blockIdx.x} * 32 * V + i;
    if (c >= a.n) break;
    float total = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += all[w][i];
    a.partials[int64_t{blockIdx.y} * a.n + c] = total;
  }
}

// A block adds 32 columns: 16 threads for each, then those.
template <class T>
__global__ void __launch_bounds__(512) sumParts(const SumPartsArgs a) {
  pdlTrigger();
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  const int64_t column = int64_t{blockIdx.x} * 32 + lane;
  T* out = static_cast<T*>(blockIdx.y == 0 ? a.out[0] : blockIdx.y == 1 ? a.out[1] : a.out[2]);
  pdlWait();
  if (!out) return;
  const float* from = a.partials + int64_t{blockIdx.y} * a.parts * a.n;
  float total = 0.f;
  if (column < a.n) {
#pragma unroll 4
    for (int p = group; p < a.parts; p += 16) total += from[int64_t{p} * a.n + column];
  }
  __shared__ float all[16][33];
  all[group][lane] = total;
  __syncthreads();
  if (group != 0 || column >= a.n) return;
  total = 0.f;
#pragma unroll
  for (int g = 0; g < 16; ++g) total += all[g][lane];
  out[column] = fromFloat<T>(total);
}

template <class T, int V>
cudaError_t runVectors(const ActivationBackwardArgs& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((a.n + 32 * V - 1) / (32 * V)), static_cast<unsigned>(a.parts));
  const auto with = [&](auto kernel) { return launch(kernel, grid, kWarps * 32, 0, stream, a.pdl, a); };
  switch (a.activation) {
    case Activation::kNone:
      return with(activationBackward<T, V, Activation::kNone>);
    case Activation::kRelu:
      return with(activationBackward<T, V, Activation::kRelu>);
    case Activation::kGelu:
      return with(activationBackward<T, V, Activation::kGelu>);
    case Activation::kGeluTanh:
      return with(activationBackward<T, V, Activation::kGeluTanh>);
    case Activation::kSilu:
      return with(activationBackward<T, V, Activation::kSilu>);
  }
  return cudaErrorInvalidValue;
}

template <class T>
cudaError_t run(const ActivationBackwardArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  const bool plain = a.activation == Activation::kNone;
  const bool vectors = a.n % V == 0 && a.ldg % V == 0 && aligned(a.grad, 16) &&
                       (plain || (a.ldz % V == 0 && aligned(a.z, 16) && aligned(a.dz, 16)));
  return vectors ? runVectors<T, V>(a, stream) : runVectors<T, 1>(a, stream);
}

}  // namespace

cudaError_t launchActivationBackward(const ActivationBackwardArgs& a, cudaStream_t stream) {
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

cudaError_t launchSumParts(const SumPartsArgs& a, cudaStream_t stream) {
  if (a.n == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((a.n + 31) / 32), static_cast<unsigned>(a.sums));
  switch (a.dtype) {
    case Dtype::kFloat:
      return launch(sumParts<float>, grid, 512, 0, stream, a.pdl, a);
    case Dtype::kHalf:
      return launch(sumParts<__half>, grid, 512, 0, stream, a.pdl, a);
    case Dtype::kBfloat16:
      return launch(sumParts<__nv_bfloat16>, grid, 512, 0, stream, a.pdl, a);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
