// The backward passes of SwiGLU, rotary embedding and softmax. All compute in fp32 between a load and a store, and move
// 16 bytes per thread where alignment allows.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gradients/gradient_launchers.h"

namespace graft::cuda {
namespace {

template <class T, int V>
__global__ void __launch_bounds__(256) swigluBackward(const SwigluBackwardArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t perRow = a.n / V, count = a.rows * perRow;
  for (int64_t c = blockIdx.x * int64_t{256} + threadIdx.x; c < count; c += gridDim.x * int64_t{256}) {
    const int64_t row = c / perRow, column = c % perRow * V;
    float d[V], g[V], u[V];
    loadVec<T, V>(static_cast<const T*>(a.grad) + row * a.ldd + column, d);
    loadVec<T, V>(static_cast<const T*>(a.gate) + row * a.ldg + column, g);
    loadVec<T, V>(static_cast<const T*>(a.up) + row * a.ldu + column, u);
    float dgate[V], dup[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float s = 1.f / (1.f + expf(-g[i]));
      dup[i] = d[i] * g[i] * s;
      const float c1 = fminf(fmaxf(g[i], -80.f), 80.f);  // beyond, c * (1 - s) is zero; avoids infinity * 0
      dgate[i] = d[i] * u[i] * s * (1.f + c1 * (1.f - s));
    }
    storeVec<T, V>(static_cast<T*>(a.dgate) + row * a.n + column, dgate);
    storeVec<T, V>(static_cast<T*>(a.dup) + row * a.n + column, dup);
  }
}

template <class T>
cudaError_t runSwiglu(const SwigluBackwardArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  const bool vectors = a.n % V == 0 && a.ldd % V == 0 && a.ldg % V == 0 && a.ldu % V == 0 && aligned(a.grad, 16) &&
                       aligned(a.gate, 16) && aligned(a.up, 16) && aligned(a.dgate, 16) && aligned(a.dup, 16);
  if (vectors) return launch(swigluBackward<T, V>, blocksFor(a.rows * a.n / V), 256, 0, stream, a.pdl, a);
  return launch(swigluBackward<T, 1>, blocksFor(a.rows * a.n), 256, 0, stream, a.pdl, a);
}

// The forward pass makes y = x * cos + (-high, low) * sin; so low gets g * cos + the high half's g * sin, and high
// g * cos - the low half's g * sin. A thread has V elements of the low half and those of the high half.
template <class T, int V>
__global__ void __launch_bounds__(256) rotaryBackward(const RotaryArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t half = a.size[3] / 2, perHead = half / V;
  const int64_t count = a.size[0] * a.size[1] * a.size[2] * perHead;
  for (int64_t e = blockIdx.x * int64_t{256} + threadIdx.x; e < count; e += gridDim.x * int64_t{256}) {
    const int64_t i = e % perHead * V, p = e / perHead, s = p % a.size[2], h = p / a.size[2] % a.size[1],
                  b = p / (a.size[2] * a.size[1]);
    const T* x = static_cast<const T*>(a.x) + b * a.xs[0] + h * a.xs[1] + s * a.xs[2];
    const float* cos = static_cast<const float*>(a.cos) + b * a.cs[0] + h * a.cs[1] + s * a.cs[2];
    const float* sin = static_cast<const float*>(a.sin) + b * a.ss[0] + h * a.ss[1] + s * a.ss[2];
    T* out = static_cast<T*>(a.out) + b * a.os[0] + h * a.os[1] + s * a.os[2];
    float low[V], high[V];
    if constexpr (V > 1) {  // the last strides are 1
      loadVec<T, V>(x + i, low);
      loadVec<T, V>(x + half + i, high);
    } else {
      low[0] = toFloat(x[i * a.xs[3]]), high[0] = toFloat(x[(half + i) * a.xs[3]]);
    }
    float dlow[V], dhigh[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      dlow[k] = low[k] * cos[(i + k) * a.cs[3]] + high[k] * sin[(half + i + k) * a.ss[3]];
      dhigh[k] = high[k] * cos[(half + i + k) * a.cs[3]] - low[k] * sin[(i + k) * a.ss[3]];
    }
    if constexpr (V > 1) {
      storeVec<T, V>(out + i, dlow);
      storeVec<T, V>(out + half + i, dhigh);
    } else {
      out[i * a.os[3]] = fromFloat<T>(dlow[0]), out[(half + i) * a.os[3]] = fromFloat<T>(dhigh[0]);
    }
  }
}

template <class T>
cudaError_t runRotary(const RotaryArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  const int64_t count = a.size[0] * a.size[1] * a.size[2] * (a.size[3] / 2);
  if (count == 0) return cudaSuccess;
  bool vectors = (a.size[3] / 2) % V == 0 && a.xs[3] == 1 && a.os[3] == 1 && aligned(a.x, 16) && aligned(a.out, 16);
  for (int d = 0; d < 3; ++d) vectors = vectors && a.xs[d] % V == 0 && a.os[d] % V == 0;
  if (vectors) return launch(rotaryBackward<T, V>, blocksFor(count / V), 256, 0, stream, a.pdl, a);
  return launch(rotaryBackward<T, 1>, blocksFor(count), 256, 0, stream, a.pdl, a);
}

// A block per row; it keeps 256 * V elements in registers and reads the others of a longer row twice.
template <class T, int V>
__global__ void __launch_bounds__(256) softmaxBackwardBlock(const SoftmaxBackwardArgs a) {
  pdlTrigger();
  pdlWait();
  __shared__ float parts[8];
  const T* grad = static_cast<const T*>(a.grad) + blockIdx.x * a.ldg;
  const T* y = static_cast<const T*>(a.y) + blockIdx.x * a.ldy;
  T* out = static_cast<T*>(a.out) + blockIdx.x * a.n;
  float keptG[V], keptY[V], sum = 0.f;
  const int64_t mine = int64_t{threadIdx.x} * V;
  for (int64_t i = mine; i < a.n; i += 256 * V) {
    float g[V], v[V];
    loadVec<T, V>(grad + i, g);
    loadVec<T, V>(y + i, v);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum += g[k] * v[k];
      if (i == mine) keptG[k] = g[k], keptY[k] = v[k];
    }
  }
  sum = warpSum(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
#pragma unroll
  for (int w = 0; w < 8; ++w) sum += parts[w];
  for (int64_t i = mine; i < a.n; i += 256 * V) {
    float g[V], v[V];
    if (i == mine) {
#pragma unroll
      for (int k = 0; k < V; ++k) g[k] = keptG[k], v[k] = keptY[k];
    } else {
      loadVec<T, V>(grad + i, g);
      loadVec<T, V>(y + i, v);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) g[k] = (g[k] - sum) * v[k] * a.scale;
    storeVec<T, V>(out + i, g);
  }
}

// Eight rows per block, a warp each: rows of up to 32 * V * Vecs elements, read once.
template <class T, int V, int Vecs>
__global__ void __launch_bounds__(256) softmaxBackwardWarp(const SoftmaxBackwardArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t row = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= a.rows) return;
  const int lane = threadIdx.x % 32;
  float g[Vecs][V], y[Vecs][V], sum = 0.f;
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t i = int64_t{c * 32 + lane} * V;
#pragma unroll
    for (int k = 0; k < V; ++k) g[c][k] = y[c][k] = 0.f;
    if (i >= a.n) continue;
    loadVec<T, V>(static_cast<const T*>(a.grad) + row * a.ldg + i, g[c]);
    loadVec<T, V>(static_cast<const T*>(a.y) + row * a.ldy + i, y[c]);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += g[c][k] * y[c][k];
  }
  sum = warpSum(sum);
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t i = int64_t{c * 32 + lane} * V;
    if (i >= a.n) continue;
#pragma unroll
    for (int k = 0; k < V; ++k) g[c][k] = (g[c][k] - sum) * y[c][k] * a.scale;
    storeVec<T, V>(static_cast<T*>(a.out) + row * a.n + i, g[c]);
  }
}

template <class T>
cudaError_t runSoftmax(const SoftmaxBackwardArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  if (a.rows > INT32_MAX) return cudaErrorNotSupported;
  const bool vectors =
      a.n % V == 0 && a.ldg % V == 0 && a.ldy % V == 0 && aligned(a.grad, 16) && aligned(a.y, 16) && aligned(a.out, 16);
  const unsigned rows = static_cast<unsigned>(a.rows), eighth = (rows + 7) / 8;
  if (vectors && a.n <= 32 * V) return launch(softmaxBackwardWarp<T, V, 1>, eighth, 256, 0, stream, a.pdl, a);
  if (vectors && a.n <= 64 * V) return launch(softmaxBackwardWarp<T, V, 2>, eighth, 256, 0, stream, a.pdl, a);
  if (vectors) return launch(softmaxBackwardBlock<T, V>, rows, 256, 0, stream, a.pdl, a);
  if (a.n <= 128) return launch(softmaxBackwardWarp<T, 1, 4>, eighth, 256, 0, stream, a.pdl, a);
  return launch(softmaxBackwardBlock<T, 1>, rows, 256, 0, stream, a.pdl, a);
}

}  // namespace

#define GRAFT_BY_DTYPE(call)                 \
  switch (a.dtype) {                         \
    case Dtype::kFloat:                      \
      return call<float>(a, stream);         \
    case Dtype::kHalf:                       \
      return call<__half>(a, stream);        \
    case Dtype::kBfloat16:                   \
      return call<__nv_bfloat16>(a, stream); \
  }                                          \
  return cudaErrorInvalidValue;

cudaError_t launchSwigluBackward(const SwigluBackwardArgs& a,
                                 cudaStream_t stream){GRAFT_BY_DTYPE(runSwiglu)} cudaError_t
    launchRotaryBackward(const RotaryArgs& a, cudaStream_t stream){GRAFT_BY_DTYPE(runRotary)} cudaError_t
    launchSoftmaxBackward(const SoftmaxBackwardArgs& a, cudaStream_t stream) {
  GRAFT_BY_DTYPE(runSoftmax)
}

}  // namespace graft::cuda
