// Small memory-bound kernels: GEMM epilogues, SwiGLU, rotary embedding, masked softmax.
//
// All compute in fp32 between a load and a store. Epilogues and SwiGLU move 16 bytes per thread where alignment allows.
#include "kernels/cuda/attention/mask.cuh"
#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

template <class T, int V>
__global__ void __launch_bounds__(256) epilogue(const GemmArgs a, const T* in, int64_t ldi) {
  pdlTrigger();
  pdlWait();
  const int64_t perRow = a.n / V, count = a.m * perRow;
  for (int64_t c = blockIdx.x * int64_t{256} + threadIdx.x; c < count; c += gridDim.x * int64_t{256}) {
    const int64_t row = c / perRow, column = c % perRow * V;
    float v[V], b[V], r[V];
    loadVec<T, V>(in + row * ldi + column, v);
    if (a.bias) loadVec<T, V>(static_cast<const T*>(a.bias) + column, b);
    if (a.residual) loadVec<T, V>(static_cast<const T*>(a.residual) + row * a.ldr + column, r);
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = a.bias ? v[i] + b[i] : v[i];
    activate<T, V>(v, a.activation);
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = a.residual ? v[i] + r[i] : v[i];
    storeVec<T, V>(static_cast<T*>(a.out) + row * a.ldo + column, v);
  }
}

template <class T>
cudaError_t runEpilogue(const GemmArgs& a, const void* in, int64_t ldi, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.m == 0 || a.n == 0) return cudaSuccess;
  const T* from = static_cast<const T*>(in);
  if (a.n % V == 0 && ldi % V == 0 && a.ldo % V == 0 && (!a.residual || a.ldr % V == 0) && aligned(in, 16) &&
      aligned(a.out, 16) && aligned(a.bias, 16) && aligned(a.residual, 16)) {
    return launch(epilogue<T, V>, blocksFor(a.m * a.n / V), 256, 0, stream, a.pdl, a, from, ldi);
  }
  return launch(epilogue<T, 1>, blocksFor(a.m * a.n), 256, 0, stream, a.pdl, a, from, ldi);
}

template <class T, int V>
__global__ void __launch_bounds__(256) swiglu(const SwigluArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t perRow = a.n / V, count = a.rows * perRow;
  for (int64_t c = blockIdx.x * int64_t{256} + threadIdx.x; c < count; c += gridDim.x * int64_t{256}) {
    const int64_t row = c / perRow, column = c % perRow * V;
    float g[V], u[V];
    loadVec<T, V>(static_cast<const T*>(a.gate) + row * a.ldg + column, g);
    loadVec<T, V>(static_cast<const T*>(a.up) + row * a.ldu + column, u);
#pragma unroll
    for (int i = 0; i < V; ++i) g[i] = g[i] / (1.f + expf(-g[i])) * u[i];
    storeVec<T, V>(static_cast<T*>(a.out) + row * a.n + column, g);
  }
}

template <class T>
cudaError_t runSwiglu(const SwigluArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  if (a.n % V == 0 && a.ldg % V == 0 && a.ldu % V == 0 && aligned(a.gate, 16) && aligned(a.up, 16) &&
      aligned(a.out, 16)) {
    return launch(swiglu<T, V>, blocksFor(a.rows * a.n / V), 256, 0, stream, a.pdl, a);
  }
  return launch(swiglu<T, 1>, blocksFor(a.rows * a.n), 256, 0, stream, a.pdl, a);
}

// out = x * cos + rotate(x) * sin, with cos and sin for each of the n columns. Element i is rotated with a partner: the
// same element of the row's other half (rotate-half form), or its neighbour (interleaved form).
template <class T>
__global__ void __launch_bounds__(256) rotary(const RotaryArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t count = a.size[0] * a.size[1] * a.size[2] * a.size[3];
  for (int64_t e = blockIdx.x * int64_t{256} + threadIdx.x; e < count; e += gridDim.x * int64_t{256}) {
    const int64_t i = e % a.size[3], s = e / a.size[3] % a.size[2], h = e / (a.size[3] * a.size[2]) % a.size[1],
                  b = e / (a.size[3] * a.size[2] * a.size[1]);
    const int64_t half = a.size[3] / 2;
    const int64_t partner = a.interleaved ? (i ^ 1) : (i < half ? i + half : i - half);
    const bool negative = a.interleaved ? (i & 1) == 0 : i < half;
    const T* x = static_cast<const T*>(a.x) + b * a.xs[0] + h * a.xs[1] + s * a.xs[2];
    const float c = static_cast<const float*>(a.cos)[b * a.cs[0] + h * a.cs[1] + s * a.cs[2] + i * a.cs[3]];
    const float n = static_cast<const float*>(a.sin)[b * a.ss[0] + h * a.ss[1] + s * a.ss[2] + i * a.ss[3]];
    const float other = toFloat(x[partner * a.xs[3]]);
    const float y = toFloat(x[i * a.xs[3]]) * c + (negative ? -other : other) * n;
    static_cast<T*>(a.out)[b * a.os[0] + h * a.os[1] + s * a.os[2] + i * a.os[3]] = fromFloat<T>(y);
  }
}

// Where a row of the scores and its row of the mask begin, in elements.
struct SoftmaxRow {
  int64_t x, mask;
  __device__ SoftmaxRow(const SoftmaxArgs& a, int64_t row) {
    const int64_t i2 = row % a.size[2], i1 = row / a.size[2] % a.size[1], i0 = row / (a.size[2] * a.size[1]);
    x = i0 * a.xs[0] + i1 * a.xs[1] + i2 * a.xs[2];
    mask = i0 * a.mask.stride[0] + i1 * a.mask.stride[1] + i2 * a.mask.stride[2];
  }
};

// softmax(x * scale + mask) over the last dimension. A row that is masked out entirely gives NaN, as softmax does. A
// block per row; it keeps the first 256 * kKept elements in registers and reads the others again for each pass.
template <class T>
__global__ void __launch_bounds__(256) softmaxBlock(const SoftmaxArgs a) {
  pdlTrigger();
  pdlWait();
  constexpr int kKept = 8;
  __shared__ float parts[8];
  const int64_t row = blockIdx.x;
  const SoftmaxRow begin(a, row);
  const T* x = static_cast<const T*>(a.x) + begin.x;
  const int64_t maskRow = begin.mask;
  const int64_t n = a.size[3];
  auto value = [&](int64_t i) {
    return toFloat(x[i * a.xs[3]]) * a.scale + loadMask(a.mask, maskRow + i * a.mask.stride[3]);
  };
  auto reduce = [&](float v, bool isMax) {
    v = isMax ? warpMax(v) : warpSum(v);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < 8 ? parts[threadIdx.x % 32] : (isMax ? -INFINITY : 0.f);
    v = isMax ? warpMax(v) : warpSum(v);
    __syncthreads();
    return v;
  };
  float kept[kKept], top = -INFINITY, sum = 0.f;
#pragma unroll
  for (int c = 0; c < kKept; ++c) {
    const int64_t i = threadIdx.x + c * 256;
    kept[c] = i < n ? value(i) : -INFINITY;
    top = kept[c] != kept[c] ? kept[c] : (top != top ? top : fmaxf(top, kept[c]));
  }
  for (int64_t i = threadIdx.x + kKept * 256; i < n; i += 256) {
    const float v = value(i);
    top = v != v ? v : (top != top ? top : fmaxf(top, v));
  }
  top = reduce(top, true);
#pragma unroll
  for (int c = 0; c < kKept; ++c) {
    // Zero beyond the end of the row: in a row of -Inf, exp(-Inf - -Inf) would be NaN there too.
    kept[c] = threadIdx.x + c * 256 < n ? expf(kept[c] - top) : 0.f;
    sum += kept[c];
  }
  for (int64_t i = threadIdx.x + kKept * 256; i < n; i += 256) sum += expf(value(i) - top);
  sum = reduce(sum, false);
  const float inverse = 1.f / sum;
  T* out = static_cast<T*>(a.out) + row * n;
#pragma unroll
  for (int c = 0; c < kKept; ++c) {
    const int64_t i = threadIdx.x + c * 256;
    if (i < n) out[i] = fromFloat<T>(kept[c] * inverse);
  }
  for (int64_t i = threadIdx.x + kKept * 256; i < n; i += 256) out[i] = fromFloat<T>(expf(value(i) - top) * inverse);
}

// The same for rows of up to 32 * V * Vecs elements: eight rows per block, a warp each, read once and without a
// barrier. V > 1 wants rows of x that are contiguous, and 16 bytes of alignment.
template <class T, int V, int Vecs>
__global__ void __launch_bounds__(256) softmaxWarp(const SoftmaxArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t row = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= a.size[0] * a.size[1] * a.size[2]) return;
  const int lane = threadIdx.x % 32;
  const SoftmaxRow begin(a, row);
  const T* x = static_cast<const T*>(a.x) + begin.x;
  const int64_t n = a.size[3];
  float v[Vecs][V], top = -INFINITY, sum = 0.f;
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t i = int64_t{c * 32 + lane} * V;
    if (i >= n) {
#pragma unroll
      for (int k = 0; k < V; ++k) v[c][k] = -INFINITY;
      continue;
    }
    if constexpr (V > 1) {
      loadVec<T, V>(x + i, v[c]);
    } else {
      v[c][0] = toFloat(x[i * a.xs[3]]);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      v[c][k] = v[c][k] * a.scale + loadMask(a.mask, begin.mask + (i + k) * a.mask.stride[3]);
      top = v[c][k] != v[c][k] ? v[c][k] : (top != top ? top : fmaxf(top, v[c][k]));
    }
  }
  top = warpMax(top);
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const bool inside = int64_t{c * 32 + lane} * V < n;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      v[c][k] = inside ? expf(v[c][k] - top) : 0.f;
      sum += v[c][k];
    }
  }
  const float inverse = 1.f / warpSum(sum);
  T* out = static_cast<T*>(a.out) + row * n;
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t i = int64_t{c * 32 + lane} * V;
    if (i >= n) continue;
#pragma unroll
    for (int k = 0; k < V; ++k) v[c][k] *= inverse;
    if constexpr (V > 1) {
      storeVec<T, V>(out + i, v[c]);
    } else {
      out[i] = fromFloat<T>(v[c][0]);
    }
  }
}

template <class T>
cudaError_t runSoftmax(const SoftmaxArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  const int64_t rows = a.size[0] * a.size[1] * a.size[2], n = a.size[3];
  if (rows == 0 || n == 0) return cudaSuccess;
  if (rows > INT32_MAX) return cudaErrorNotSupported;
  const unsigned blocks = static_cast<unsigned>(rows), eighth = static_cast<unsigned>((rows + 7) / 8);
  bool vectors = n % V == 0 && a.xs[3] == 1 && aligned(a.x, 16) && aligned(a.out, 16);
  for (int d = 0; d < 3; ++d) vectors = vectors && (a.size[d] == 1 || a.xs[d] % V == 0);
  if (vectors && n <= 32 * V) return launch(softmaxWarp<T, V, 1>, eighth, 256, 0, stream, a.pdl, a);
  if (vectors && n <= 64 * V) return launch(softmaxWarp<T, V, 2>, eighth, 256, 0, stream, a.pdl, a);
  if (vectors && n <= 128 * V) return launch(softmaxWarp<T, V, 4>, eighth, 256, 0, stream, a.pdl, a);
  if (n <= 128) return launch(softmaxWarp<T, 1, 4>, eighth, 256, 0, stream, a.pdl, a);
  if (n <= 512) return launch(softmaxWarp<T, 1, 16>, eighth, 256, 0, stream, a.pdl, a);
  return launch(softmaxBlock<T>, blocks, 256, 0, stream, a.pdl, a);
}

}  // namespace

#define GRAFT_BY_DTYPE(call)   \
  switch (a.dtype) {           \
    case Dtype::kFloat: {      \
      using T = float;         \
      return call;             \
    }                          \
    case Dtype::kHalf: {       \
      using T = __half;        \
      return call;             \
    }                          \
    case Dtype::kBfloat16: {   \
      using T = __nv_bfloat16; \
      return call;             \
    }                          \
  }                            \
  return cudaErrorInvalidValue;

cudaError_t launchEpilogue(const GemmArgs& a, const void* in, int64_t ldi,
                           cudaStream_t stream){GRAFT_BY_DTYPE((runEpilogue<T>(a, in, ldi, stream)))}

cudaError_t launchSwiglu(const SwigluArgs& a, cudaStream_t stream){GRAFT_BY_DTYPE((runSwiglu<T>(a, stream)))}

cudaError_t launchRotary(const RotaryArgs& a, cudaStream_t stream) {
  const int64_t count = a.size[0] * a.size[1] * a.size[2] * a.size[3];
  if (count == 0) return cudaSuccess;
  GRAFT_BY_DTYPE((launch(rotary<T>, blocksFor(count), 256, 0, stream, a.pdl, a)))
}

cudaError_t launchSoftmax(const SoftmaxArgs& a, cudaStream_t stream) { GRAFT_BY_DTYPE((runSoftmax<T>(a, stream))) }

}  // namespace graft::cuda
