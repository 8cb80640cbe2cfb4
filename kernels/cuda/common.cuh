#pragma once
// What every CUDA kernel here shares: vector access, conversions, activations, and programmatic dependent launch (PDL).
//
// .cu files do not include ATen: a launcher takes raw pointers and a stream (launchers.h), and the .cpp beside it talks
// to LibTorch. So nvcc needs only seconds for a file.
//
// PDL rule: every thread of a kernel that launch(..., pdl=true) starts calls pdlTrigger() once the block is resident,
// and pdlWait() before it touches memory that an earlier kernel may read or write. When a kernel completes, all kernels
// before it on the stream have therefore completed too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tuning/timestamps.cuh"

namespace graft::cuda {

__device__ __forceinline__ void pdlWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void pdlTrigger() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ float toFloat(float x) { return x; }
__device__ __forceinline__ float toFloat(__half x) { return __half2float(x); }
__device__ __forceinline__ float toFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ __forceinline__ T fromFloat(float x);
template <>
__device__ __forceinline__ float fromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half fromFloat<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 fromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Two neighbouring elements of a half type as one register.
template <class T>
__device__ __forceinline__ uint32_t pack2(float a, float b);
template <>
__device__ __forceinline__ uint32_t pack2<__half>(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<uint32_t*>(&h);
}
template <>
__device__ __forceinline__ uint32_t pack2<__nv_bfloat16>(float a, float b) {
  __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  return *reinterpret_cast<uint32_t*>(&h);
}
template <class T>
__device__ __forceinline__ float2 unpack2(uint32_t x);
template <>
__device__ __forceinline__ float2 unpack2<__half>(uint32_t x) {
  return __half22float2(*reinterpret_cast<__half2*>(&x));
}
template <>
__device__ __forceinline__ float2 unpack2<__nv_bfloat16>(uint32_t x) {
  return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&x));
}

// N consecutive elements, loaded and stored in one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
  T v[N];
};
template <class T, int N>
__device__ __forceinline__ void loadVec(const T* p, float (&out)[N]) {
  Vec<T, N> x = *reinterpret_cast<const Vec<T, N>*>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = toFloat(x.v[i]);
}
template <class T, int N>
__device__ __forceinline__ void storeVec(T* p, const float (&in)[N]) {
  Vec<T, N> x;
#pragma unroll
  for (int i = 0; i < N; ++i) x.v[i] = fromFloat<T>(in[i]);
  *reinterpret_cast<Vec<T, N>*>(p) = x;
}

__device__ __forceinline__ float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 2^(-x p(x^2)), so that Phi(x) = 1 / (1 + geluExponential(x)) is the normal distribution function. The polynomial p
// is fitted to log2 of Phi(x) / Phi(-x); x * Phi(x) is within 0.07 ulp of fp16 everywhere.
__device__ __forceinline__ float geluExponential(float x) {
  const float c = fmaxf(x, -7.f), u = c * c;  // beyond 7 the polynomial may grow: Phi is 1 there
  float p = 2.1535331642722457e-09f;
  p = fmaf(p, u, -1.9903515481185504e-07f);
  p = fmaf(p, u, 7.1735345932313506e-06f);
  p = fmaf(p, u, -1.1267858876639425e-04f);
  p = fmaf(p, u, -3.4262568488070076e-04f);
  p = fmaf(p, u, 1.0540429980125865e-01f);
  p = fmaf(p, u, 2.3018189724483316f);
  return exp2Fast(-c * p);
}
// The exact (erf) GELU of two values that will be rounded to a half type. It takes half the instructions of erff, and
// one reciprocal serves both values. That matters in a GEMM's epilogue, where a scheduler has only two warps and no
// other work to hide the latency.
__device__ __forceinline__ void geluPair(float& a, float& b) {
  const float da = 1.f + geluExponential(a), db = 1.f + geluExponential(b);
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(da * db));
  // Below -7 the result rounds to zero. Clamping keeps large negative inputs from overflowing the product.
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(-7.f));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(b) : "f"(-7.f));
  a *= r * db;
  b *= r * da;
}

// Applies one activation to the first N of M values, which will be rounded to `T`. The branch stands outside of the
// loop: inside it the compiler would emit every activation for each value, and instruction cache misses cost these
// short kernels more than anything else.
template <class T, int N, int M>
__device__ __forceinline__ void activate(float (&v)[M], Activation a) {
  if (a == Activation::kNone) return;
  if (a == Activation::kGelu && sizeof(T) == 2 && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) geluPair(v[i], v[i + 1]);
  } else if (a == Activation::kGelu) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = 0.5f * v[i] * (1.f + erff(v[i] * 0.70710678118654752f));
  } else if (a == Activation::kRelu) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = v[i] < 0.f ? 0.f : v[i];  // NaN stays NaN
  } else {
    // x * sigmoid(x), or x * sigmoid(2u), which is x/2 * (1 + tanh(u))
    const float cubic = a == Activation::kGeluTanh ? 2.f * 0.79788456080286536f * 0.044715f : 0.f;
    const float linear = a == Activation::kGeluTanh ? 2.f * 0.79788456080286536f : 1.f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float c = fminf(v[i], 1e18f);  // avoids 0 * infinity = NaN
      v[i] = __fdividef(v[i], 1.f + __expf(-v[i] * (linear + cubic * c * c)));
    }
  }
}

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ __forceinline__ float warpMax(float x) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    float y = __shfl_xor_sync(~0u, x, d);
    x = x != x ? x : (y != y ? y : fmaxf(x, y));
  }
  return x;
}

// Raises a kernel's limit of dynamic shared memory to `bytes`. Each GPU has its own limit; `configured`, one per
// kernel, holds a bit for each GPU where that is done.
template <class Kernel>
inline cudaError_t allowShared(Kernel* kernel, int bytes, std::atomic<uint64_t>& configured) {
  int device = 0;
  if (const cudaError_t failed = cudaGetDevice(&device); failed != cudaSuccess) return failed;
  const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
  if (configured.load(std::memory_order_relaxed) & bit) return cudaSuccess;
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaSuccess) configured.fetch_or(bit, std::memory_order_relaxed);
  return status;
}

// Launches in clusters of `cluster` blocks along x, with the PDL attribute where launchesAhead(pdl) is true. `smem` is
// in bytes; above 48 KB call allowShared first.
template <class... KernelArgs, class... Args>
inline cudaError_t launchCluster(void (*kernel)(KernelArgs...), dim3 grid, dim3 block, unsigned cluster, size_t smem,
                                 cudaStream_t stream, bool pdl, Args&&... args) {
  prepareTimestamps();
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = smem;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  if (launchesAhead(pdl)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, KernelArgs(args)...);
}
template <class... KernelArgs, class... Args>
inline cudaError_t launch(void (*kernel)(KernelArgs...), dim3 grid, dim3 block, size_t smem, cudaStream_t stream,
                          bool pdl, Args&&... args) {
  return launchCluster(kernel, grid, block, 1, smem, stream, pdl, args...);
}

/// Of 256 threads each, for kernels that step over what is left.
inline unsigned blocksFor(int64_t count) {
  const int64_t blocks = (count + 255) / 256;
  return static_cast<unsigned>(blocks < 132 * 64 ? blocks : 132 * 64);
}

}  // namespace graft::cuda
