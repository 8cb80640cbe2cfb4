// LayerNorm and RMSNorm of x + input bias + residual, and LayerNorm of a sum of embeddings.
//
// Rows of n elements (any n). Statistics are fp32: the mean, then the centred squares, in two passes over registers.
// Three kernels: a warp per row (16-byte accesses, up to 1024 half elements), a block per row (up to 8192), and normAny
// for all other rows, which reads the row from memory three times. Where x + residual is returned too, the norm is of
// that sum after rounding to the dtype, as in the unfused graph.
#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

// The sum of x over the warps of a row. Each call in a kernel needs its own `Which`, which selects a buffer: so no
// barrier is needed between two calls.
template <int Warps, int Which = 0>
__device__ __forceinline__ float rowSum(float x) {
  x = warpSum(x);
  if constexpr (Warps > 1) {
    __shared__ float parts[Warps];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.f;
#pragma unroll
    for (int i = 0; i < Warps; ++i) x += parts[i];
  }
  return x;
}

// (mean, sum of centred squares) of a row of which each thread holds Count values, in one exchange instead of two:
// first each thread's own, then pairs of equal size are merged. Source: Chan, Golub, LeVeque (1979).
template <int Warps, int Count>
__device__ __forceinline__ float2 rowMoments(const float (&v)[Count]) {
  float mean = 0.f, squares = 0.f;
#pragma unroll
  for (int i = 0; i < Count; ++i) mean += v[i];
  mean *= 1.f / Count;
#pragma unroll
  for (int i = 0; i < Count; ++i) squares += (v[i] - mean) * (v[i] - mean);
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const float other = __shfl_xor_sync(~0u, mean, lanes), more = __shfl_xor_sync(~0u, squares, lanes);
    const float apart = other - mean;
    squares += more + apart * apart * (0.5f * Count * lanes);
    mean = 0.5f * (mean + other);
  }
  if constexpr (Warps > 1) {
    __shared__ float2 parts[Warps];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = make_float2(mean, squares);
    __syncthreads();
    mean = squares = 0.f;
#pragma unroll
    for (int i = 0; i < Warps; ++i) mean += parts[i].x;
    mean *= 1.f / Warps;
#pragma unroll
    for (int i = 0; i < Warps; ++i) squares += parts[i].y + (parts[i].x - mean) * (parts[i].x - mean) * (32.f * Count);
  }
  return make_float2(mean, squares);
}

// Warps == 1: four rows per block, a warp each. Otherwise a block per row. A thread holds Vecs chunks of V consecutive
// elements, chunk c at column (c * threads + thread) * V. Full: the chunks cover the row exactly. All loads are issued
// before the first use, because with few rows latency decides the time.
template <class T, int Warps, int Vecs, int V, bool Full>
__global__ void __launch_bounds__(Warps == 1 ? 128 : Warps * 32) normKernel(const NormArgs a) {
  pdlTrigger();
  const int64_t row = Warps == 1 ? int64_t{blockIdx.x} * 4 + threadIdx.x / 32 : blockIdx.x;
  const int thread = Warps == 1 ? threadIdx.x % 32 : threadIdx.x;
  constexpr int kThreads = Warps * 32;
  using Chunk = Vec<T, V>;
  Chunk x[Vecs], r[Vecs], inputBias[Vecs], weight[Vecs], bias[Vecs];
  auto load = [&](const void* from, Chunk(&to)[Vecs]) {
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      const int64_t column = int64_t{c * kThreads + thread} * V;
      if (from && (Full || column < a.n)) to[c] = *reinterpret_cast<const Chunk*>(static_cast<const T*>(from) + column);
    }
  };
  const float inverse = 1.f / static_cast<float>(a.n);
  recordTimestamp(threadIdx.x == 0, Stage::kEntry);
  if (!a.constantWeights) pdlWait();
  load(a.weight, weight);
  load(a.bias, bias);
  load(a.inputBias, inputBias);
  recordTimestamp(threadIdx.x == 0, Stage::kBeforeWait);
  if (a.constantWeights) pdlWait();
  recordTimestamp(threadIdx.x == 0, Stage::kAfterWait);
  if (row >= a.rows) return;
  load(static_cast<const T*>(a.x) + row * a.ldx, x);
  load(a.residual ? static_cast<const T*>(a.residual) + row * a.ldr : nullptr, r);

  float v[Vecs * V];
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t column = int64_t{c * kThreads + thread} * V;
    float(&part)[V] = reinterpret_cast<float(&)[V]>(v[c * V]);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      part[i] = 0.f;
      if (Full || column < a.n) {
        part[i] = toFloat(x[c].v[i]);
        if (a.inputBias) part[i] += toFloat(inputBias[c].v[i]);
        if (a.residual) part[i] += toFloat(r[c].v[i]);
        if (a.sum) part[i] = toFloat(fromFloat<T>(part[i]));
      }
    }
    if (a.sum && (Full || column < a.n)) storeVec<T, V>(static_cast<T*>(a.sum) + row * a.n + column, part);
  }
  float mean = 0.f, q = 0.f;
  if (Full && !a.rms) {
    const float2 moments = rowMoments<Warps>(v);
    mean = moments.x, q = moments.y;
  } else {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < Vecs * V; ++i) s += v[i];
    if (!a.rms) mean = rowSum<Warps>(s) * inverse;
#pragma unroll
    for (int c = 0; c < Vecs; ++c) {
      if (Full || int64_t{c * kThreads + thread} * V < a.n) {
#pragma unroll
        for (int i = 0; i < V; ++i) q += (v[c * V + i] - mean) * (v[c * V + i] - mean);
      }
    }
    q = rowSum<Warps, 1>(q);
  }
  const float scale = rsqrtf(q * inverse + a.eps);
#pragma unroll
  for (int c = 0; c < Vecs; ++c) {
    const int64_t column = int64_t{c * kThreads + thread} * V;
    if (!Full && column >= a.n) continue;
    float y[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      y[i] = (v[c * V + i] - mean) * scale;
      if (a.weight) y[i] *= toFloat(weight[c].v[i]);
      if (a.bias) y[i] += toFloat(bias[c].v[i]);
    }
    storeVec<T, V>(static_cast<T*>(a.out) + row * a.n + column, y);
  }
  writeTimestamps(threadIdx.x == 0, TimedKernel::kNorm);
}

// Any n and alignment: a block per row, which reads the row again for each pass.
template <class T>
__global__ void __launch_bounds__(256) normAny(const NormArgs a) {
  pdlTrigger();
  pdlWait();
  const int64_t row = blockIdx.x;
  auto value = [&](int64_t i) {
    float v = toFloat(static_cast<const T*>(a.x)[row * a.ldx + i]);
    if (a.inputBias) v += toFloat(static_cast<const T*>(a.inputBias)[i]);
    if (a.residual) v += toFloat(static_cast<const T*>(a.residual)[row * a.ldr + i]);
    return a.sum ? toFloat(fromFloat<T>(v)) : v;
  };
  float mean = 0.f, q = 0.f;
  if (!a.rms) {
    for (int64_t i = threadIdx.x; i < a.n; i += 256) mean += value(i);
    mean = rowSum<8>(mean) / a.n;
  }
  for (int64_t i = threadIdx.x; i < a.n; i += 256) {
    const float c = value(i) - mean;
    q += c * c;
  }
  const float scale = rsqrtf(rowSum<8, 1>(q) / a.n + a.eps);
  for (int64_t i = threadIdx.x; i < a.n; i += 256) {
    const float v = value(i);
    float y = (v - mean) * scale;
    if (a.weight) y *= toFloat(static_cast<const T*>(a.weight)[i]);
    if (a.bias) y += toFloat(static_cast<const T*>(a.bias)[i]);
    if (a.sum) static_cast<T*>(a.sum)[row * a.n + i] = fromFloat<T>(v);
    static_cast<T*>(a.out)[row * a.n + i] = fromFloat<T>(y);
  }
}

template <class T, int Warps, int Vecs, int V>
cudaError_t launchRows(const NormArgs& a, unsigned rows, cudaStream_t stream) {
  const unsigned blocks = Warps == 1 ? (rows + 3) / 4 : rows, threads = Warps == 1 ? 128 : Warps * 32;
  const auto kernel =
      a.n == Warps * 32 * Vecs * V ? normKernel<T, Warps, Vecs, V, true> : normKernel<T, Warps, Vecs, V, false>;
  return launch(kernel, blocks, threads, 0, stream, a.pdl, a);
}

template <class T>
cudaError_t runNorm(const NormArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  if (a.rows == 0 || a.n == 0) return cudaSuccess;
  if (a.rows > INT32_MAX) return cudaErrorNotSupported;
  const bool vectors = a.n % V == 0 && a.ldx % V == 0 && (!a.residual || a.ldr % V == 0) && aligned(a.x, 16) &&
                       aligned(a.residual, 16) && aligned(a.inputBias, 16) && aligned(a.weight, 16) &&
                       aligned(a.bias, 16) && aligned(a.out, 16) && aligned(a.sum, 16);
  const unsigned rows = static_cast<unsigned>(a.rows);
  const int64_t chunks = vectors ? a.n / V : INT64_MAX;
  // Few rows get more threads each. With many rows, a warp each avoids barriers.
  if (chunks <= 32) return launchRows<T, 1, 1, V>(a, rows, stream);
  if (rows >= 2048 && chunks <= 96) return launchRows<T, 1, 3, V>(a, rows, stream);
  if (rows >= 2048 && chunks <= 128) return launchRows<T, 1, 4, V>(a, rows, stream);
  if (chunks <= 96) return launchRows<T, 3, 1, V>(a, rows, stream);
  if (chunks <= 128) return launchRows<T, 4, 1, V>(a, rows, stream);
  if (chunks <= 256) return launchRows<T, 8, 1, V>(a, rows, stream);
  if (chunks <= 1024) return launchRows<T, 8, 4, V>(a, rows, stream);
  return launch(normAny<T>, rows, 256, 0, stream, a.pdl, a);
}

// LayerNorm of a sum of embeddings for rows of any length: a block per position, V elements per access.
template <class T, int V>
__global__ void __launch_bounds__(128) embeddingNorm(const EmbeddingArgs a) {
  pdlTrigger();
  pdlWait();
  constexpr int kThreads = 128;
  const int64_t outer = blockIdx.x / a.inner, inner = blockIdx.x % a.inner;
  const T* rows[kMaxTables];
#pragma unroll
  for (int t = 0; t < kMaxTables; ++t) {
    if (t < a.tables) {
      const int64_t id = a.ids[t][outer * a.idStride[t][0] + inner * a.idStride[t][1]];
      if (id < 0 || id >= a.tableRows[t])
        __trap();  // as ATen's embedding does: an index out of range is a device-side error
      rows[t] = static_cast<const T*>(a.table[t]) + id * a.n;
    }
  }
  auto value = [&](int64_t column, float(&v)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) v[i] = 0.f;
#pragma unroll
    for (int t = 0; t < kMaxTables; ++t) {
      if (t < a.tables) {
        float f[V];
        loadVec<T, V>(rows[t] + column, f);
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] += f[i];
      }
    }
  };
  auto each = [&](auto use) {
#pragma unroll 1
    for (int64_t column = int64_t{threadIdx.x} * V; column < a.n; column += kThreads * V) {
      float v[V];
      value(column, v);
      use(column, v);
    }
  };
  float mean = 0.f, q = 0.f;
  each([&](int64_t, float(&v)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) mean += v[i];
  });
  mean = rowSum<kThreads / 32>(mean) / a.n;
  each([&](int64_t, float(&v)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) q += (v[i] - mean) * (v[i] - mean);
  });
  const float scale = rsqrtf(rowSum<kThreads / 32, 1>(q) / a.n + a.eps);
  T* out = static_cast<T*>(a.out) + blockIdx.x * a.n;
  each([&](int64_t column, float(&v)[V]) {
    float w[V], b[V];
    if (a.weight) loadVec<T, V>(static_cast<const T*>(a.weight) + column, w);
    if (a.bias) loadVec<T, V>(static_cast<const T*>(a.bias) + column, b);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      v[i] = (v[i] - mean) * scale;
      if (a.weight) v[i] *= w[i];
      if (a.bias) v[i] += b[i];
    }
    storeVec<T, V>(out + column, v);
  });
}

// The same with the row in registers, V elements per thread. Four tables are read at a time.
template <class T, int Warps, int V>
__global__ void __launch_bounds__(Warps * 32) embeddingRow(const EmbeddingArgs a) {
  pdlTrigger();
  const int64_t column = int64_t{threadIdx.x} * V;
  const bool there = column < a.n;
  const float inverse = 1.f / static_cast<float>(a.n);
  using Chunk = Vec<T, V>;
  pdlWait();
  const int64_t outer = blockIdx.x / static_cast<unsigned>(a.inner),
                inner = blockIdx.x % static_cast<unsigned>(a.inner);
  int64_t id[kMaxTables];
#pragma unroll
  for (int t = 0; t < kMaxTables; ++t) {
    id[t] = 0;
    if (t < a.tables) id[t] = a.ids[t][outer * a.idStride[t][0] + inner * a.idStride[t][1]];
  }
  Chunk weight, bias;
  if (a.weight && there) weight = *reinterpret_cast<const Chunk*>(static_cast<const T*>(a.weight) + column);
  if (a.bias && there) bias = *reinterpret_cast<const Chunk*>(static_cast<const T*>(a.bias) + column);
  bool valid = true;
#pragma unroll
  for (int t = 0; t < kMaxTables; ++t) {
    if (t < a.tables) valid = valid && id[t] >= 0 && id[t] < a.tableRows[t];
  }
  if (!valid) __trap();  // as ATen's embedding does: an index out of range is a device-side error
  float v[V];
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = 0.f;
  constexpr int kAtOnce = 4;
#pragma unroll
  for (int t0 = 0; t0 < kMaxTables; t0 += kAtOnce) {
    if (t0 >= a.tables) break;
    Chunk part[kAtOnce];
#pragma unroll
    for (int t = 0; t < kAtOnce; ++t) {
      if (t0 + t < a.tables && there)
        part[t] = *reinterpret_cast<const Chunk*>(static_cast<const T*>(a.table[t0 + t]) + id[t0 + t] * a.n + column);
    }
#pragma unroll
    for (int t = 0; t < kAtOnce; ++t) {
      if (t0 + t < a.tables && there) {
#pragma unroll
        for (int i = 0; i < V; ++i) v[i] += toFloat(part[t].v[i]);
      }
    }
  }
  float s = 0.f, q = 0.f;
#pragma unroll
  for (int i = 0; i < V; ++i) s += v[i];
  const float mean = rowSum<Warps>(s) * inverse;
  if (there) {
#pragma unroll
    for (int i = 0; i < V; ++i) q += (v[i] - mean) * (v[i] - mean);
  }
  const float scale = rsqrtf(rowSum<Warps, 1>(q) * inverse + a.eps);
  if (!there) return;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    v[i] = (v[i] - mean) * scale;
    if (a.weight) v[i] *= toFloat(weight.v[i]);
    if (a.bias) v[i] += toFloat(bias.v[i]);
  }
  storeVec<T, V>(static_cast<T*>(a.out) + blockIdx.x * a.n + column, v);
}

template <class T>
cudaError_t runEmbedding(const EmbeddingArgs& a, cudaStream_t stream) {
  constexpr int V = 16 / sizeof(T);
  const unsigned grid = static_cast<unsigned>(a.outer * a.inner);
  bool vectors = a.n % V == 0 && aligned(a.out, 16) && aligned(a.weight, 16) && aligned(a.bias, 16);
  for (int t = 0; t < a.tables; ++t) vectors = vectors && aligned(a.table[t], 16);
  if (vectors && a.n <= 96 * V) return launch(embeddingRow<T, 3, V>, grid, 96, 0, stream, a.pdl, a);
  if (vectors && a.n <= 128 * V) return launch(embeddingRow<T, 4, V>, grid, 128, 0, stream, a.pdl, a);
  if (vectors && a.n <= 256 * V) return launch(embeddingRow<T, 8, V>, grid, 256, 0, stream, a.pdl, a);
  if (vectors) return launch(embeddingNorm<T, V>, grid, 128, 0, stream, a.pdl, a);
  return launch(embeddingNorm<T, 1>, grid, 128, 0, stream, a.pdl, a);
}

}  // namespace

cudaError_t launchNorm(const NormArgs& a, cudaStream_t stream) {
  switch (a.dtype) {
    case Dtype::kFloat:
      return runNorm<float>(a, stream);
    case Dtype::kHalf:
      return runNorm<__half>(a, stream);
    case Dtype::kBfloat16:
      return runNorm<__nv_bfloat16>(a, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launchEmbeddingNorm(const EmbeddingArgs& a, cudaStream_t stream) {
  const int64_t positions = a.outer * a.inner;
  if (positions == 0 || a.n == 0) return cudaSuccess;
  if (positions > INT32_MAX || a.tables < 1 || a.tables > kMaxTables) return cudaErrorNotSupported;
  switch (a.dtype) {
    case Dtype::kFloat:
      return runEmbedding<float>(a, stream);
    case Dtype::kHalf:
      return runEmbedding<__half>(a, stream);
    case Dtype::kBfloat16:
      return runEmbedding<__nv_bfloat16>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
