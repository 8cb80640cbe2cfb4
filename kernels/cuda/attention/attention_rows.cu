// Attention of a few tokens and the product that follows it in one kernel:
// out = residual + act(attention(q, k, v) w^T + bias), for up to 16 queries and 32 keys, fp16 and bf16.
//
// The product works as in gemm_rows.cu. Each warp has one head, which is a range of the product's K, and the blocks of
// a cluster share the heads. A warp computes the attention of its head with a few dozen matrix instructions, directly
// on the registers that loaded q, k and v. The accumulator of the scores is an operand of the product with v (Dao,
// FlashAttention-2, 2023). With v's columns taken in the right order, the accumulator of that product is x of the
// third.
#include "kernels/cuda/attention/mask.cuh"
#include "kernels/cuda/gemm/gemm_rows.cuh"

namespace graft::cuda {
namespace {

// Warps: heads of a block. C: head size / 32. Keys: groups of 16 keys. Columns: groups of 16 columns per cluster.
// Split: blocks of a cluster. Masked: a mask of type T is added.
template <class T, int Warps, int C, int Keys, int Columns, int Split, bool Masked>
__global__ void __launch_bounds__(Warps * 32) attentionRows(const AttentionArgs a, const RowsParams p) {
  using Exchange = RowsExchange<Warps, 16, Columns, Split, false>;
  constexpr int kTimes = Exchange::kTimes, kThreads = Exchange::kThreads;
  __shared__ __align__(16) Exchange exchange;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int rank = Split > 1 ? blockIdx.x % Split : 0, n0 = blockIdx.x / Split * Exchange::kColumns;
  const int batch = blockIdx.y, head = rank * Warps + warp, kvHead = head / (a.heads / a.kvHeads);
  exchange.open();
  pdlTrigger();
  if (!p.constantWeights) pdlWait();
  RowsWeights<T, C> weights[Columns];
#pragma unroll
  for (int i = 0; i < Columns; ++i) weights[i].load(p, n0 + i * kRowsColumns, head * C * 32, lane);
  // This thread finishes kTimes pairs of columns; pair i is of these columns and this token.
  const auto columnOf = [&](int i) {
    return n0 + rank * Exchange::kOwn + Exchange::columnOf(threadIdx.x + i * kThreads);
  };
  const auto tokenOf = [&](int i) { return Exchange::tokenOf(threadIdx.x + i * kThreads); };
  uint32_t bias[kTimes];
#pragma unroll
  for (int i = 0; i < kTimes; ++i) bias[i] = rowsBias<T>(p, columnOf(i));
  exchange.ready();

  RowsWeights<T, C> w[Columns];
#pragma unroll
  for (int i = 0; i < Columns; ++i) w[i].clear();
#pragma unroll 1
  for (int pass = p.constantWeights ? 0 : 1; pass < 2; ++pass) {
    const bool real = pass == 1;
    if (real) {
#pragma unroll
      for (int i = 0; i < Columns; ++i) w[i] = weights[i];
    }
    if (real && p.constantWeights) pdlWait();
    // Beyond the last query or key the last one is loaded again; such scores are hidden below.
    const int tokens[2] = {min(g, a.queries - 1), min(g + 8, a.queries - 1)};
    const int lastKey = a.keys - 1;
    const T* q = static_cast<const T*>(a.q) + batch * a.qs[0] + head * a.qs[1] + t * 8;
    const T* k = static_cast<const T*>(a.k) + batch * a.ks[0] + kvHead * a.ks[1] + t * 8;
    const T* v = static_cast<const T*>(a.v) + batch * a.vs[0] + kvHead * a.vs[1] + g / 2 * 8;
    const int qStride = static_cast<int>(a.qs[2]), kStride = static_cast<int>(a.ks[2]),
              vStride = static_cast<int>(a.vs[2]);
    uint4 qs[2][C], ks[Keys * 2][C], vs[Keys][4][C];
    const auto load = [real](const T* from, uint4(&to)[C]) {
#pragma unroll
      for (int c = 0; c < C; ++c)
        to[c] = real ? *reinterpret_cast<const uint4*>(from + c * 32) : make_uint4(0, 0, 0, 0);
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) load(q + tokens[half] * qStride, qs[half]);
#pragma unroll
    for (int j = 0; j < Keys * 2; ++j) load(k + min(j * 8 + g, lastKey) * kStride, ks[j]);
    T masks[Keys * 2][4];
    if constexpr (Masked) {
      const T* mask = static_cast<const T*>(a.mask.data) + batch * a.mask.stride[0] + head * a.mask.stride[1];
      const T* rows[2] = {mask + tokens[0] * a.mask.stride[2], mask + tokens[1] * a.mask.stride[2]};
      const int stride = static_cast<int>(a.mask.stride[3]);
#pragma unroll
      for (int j = 0; j < Keys * 2; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = min(j * 8 + t * 2 + e, lastKey) * stride;
          masks[j][e] = real ? rows[0][at] : T(0.f), masks[j][2 + e] = real ? rows[1][at] : T(0.f);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < Keys; ++b) {
#pragma unroll
      for (int i = 0; i < 4; ++i) load(v + min(b * 16 + t * 2 + (i & 1) + (i >> 1) * 8, lastKey) * vStride, vs[b][i]);
    }
    const int firstRow = batch * a.queries;
    uint32_t residual[kTimes];
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      residual[i] = real && p.residual && tokenOf(i) < a.queries && columnOf(i) < p.n
                        ? *reinterpret_cast<const uint32_t*>(static_cast<const T*>(p.residual) +
                                                             (firstRow + tokenOf(i)) * p.ldr + columnOf(i))
                        : 0u;
    }

    float s[Keys * 2][4] = {};
#pragma unroll
    for (int j = 0; j < Keys * 2; ++j) {
      float odd[4] = {};
#pragma unroll
      for (int c = 0; c < C; ++c) {
        const uint32_t first[4] = {qs[0][c].x, qs[1][c].x, qs[0][c].y, qs[1][c].y};
        const uint32_t second[4] = {qs[0][c].z, qs[1][c].z, qs[0][c].w, qs[1][c].w};
        mma<T>(s[j], first, ks[j][c].x, ks[j][c].y);
        mma<T>(odd, second, ks[j][c].z, ks[j][c].w);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j][i] += odd[i];
    }
    const float scale = a.scale * kLog2e;
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // The number of keys that this row sees.
      const int seen = a.causal ? min(a.keys, g + half * 8 + 1) : a.keys;
      float high = -INFINITY;
#pragma unroll
      for (int j = 0; j < Keys * 2; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& y = s[j][half * 2 + e];
          y *= scale;
          if constexpr (Masked) y += maskLog2(toFloat(masks[j][half * 2 + e]));
          if (j * 8 + t * 2 + e >= seen) y = -INFINITY;
          high = fmaxf(high, y);
        }
      }
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
      const float base = high == -INFINITY ? 0.f : high;
      float total = 0.f;
#pragma unroll
      for (int j = 0; j < Keys * 2; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) total += s[j][half * 2 + e] = exp2Fast(s[j][half * 2 + e] - base);
      }
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      shrink[half] = total == 0.f ? 0.f : __fdividef(1.f, total);
    }
    // Columns 2t and 2t + 1 of o[4c + i] are the head's elements 32c + 8t + 2i and the next one: those that lane t
    // multiplies with chunk c of the weights.
    const uint32_t parity = g & 1 ? 0x7632 : 0x5410;
    float o[C * 4][4] = {};
#pragma unroll
    for (int b = 0; b < Keys; ++b) {
      const uint32_t weights[4] = {pack2<T>(s[2 * b][0], s[2 * b][1]), pack2<T>(s[2 * b][2], s[2 * b][3]),
                                   pack2<T>(s[2 * b + 1][0], s[2 * b + 1][1]),
                                   pack2<T>(s[2 * b + 1][2], s[2 * b + 1][3])};
#pragma unroll
      for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mma<T>(o[c * 4 + i], weights, __byte_perm(wordOf(vs[b][0][c], i), wordOf(vs[b][1][c], i), parity),
                 __byte_perm(wordOf(vs[b][2][c], i), wordOf(vs[b][3][c], i), parity));
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      uint4 x[C];
#pragma unroll
      for (int c = 0; c < C; ++c) {
        uint32_t y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          y[i] = pack2<T>(o[c * 4 + i][tile * 2] * shrink[tile], o[c * 4 + i][tile * 2 + 1] * shrink[tile]);
        x[c] = make_uint4(y[0], y[1], y[2], y[3]);
      }
#pragma unroll
      for (int i = 0; i < Columns; ++i) {
        float even[4] = {}, odd[4] = {};
#pragma unroll
        for (int c = 0; c < C; ++c) w[i].multiply(c, x[c], even, odd);
        exchange.put(warp, tile, i, lane, even, odd);
      }
    }
    __syncthreads();
    exchange.sendSums(rank, real);
    exchange.receive(real);
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      const int pair = threadIdx.x + i * kThreads;
      if (pair >= Exchange::kPairs) break;
      finish<T>(p, real && tokenOf(i) < a.queries && columnOf(i) < p.n, firstRow + tokenOf(i), columnOf(i),
                exchange.sumOf(pair, rank, real), bias[i], residual[i]);
    }
    __syncthreads();
  }
}

template <class T, int Warps, int C, int Keys, int Columns, int Split>
cudaError_t run(const AttentionArgs& a, const RowsParams& p, cudaStream_t stream) {
  constexpr int kColumns = Columns * kRowsColumns;
  const dim3 grid(static_cast<unsigned>((p.n + kColumns - 1) / kColumns * Split), static_cast<unsigned>(a.batch));
  const auto kernel = a.mask.kind == MaskKind::kNone ? attentionRows<T, Warps, C, Keys, Columns, Split, false>
                                                     : attentionRows<T, Warps, C, Keys, Columns, Split, true>;
  return launchCluster(kernel, grid, Warps * 32, Split, 0, stream, a.pdl, a, p);
}

template <class T, int C, int Keys>
cudaError_t run(const AttentionArgs& a, const RowsParams& p, cudaStream_t stream) {
  switch (a.heads) {
    case 4:
      return run<T, 2, C, Keys, 2, 2>(a, p, stream);
    case 8:
      return run<T, 2, C, Keys, 2, 4>(a, p, stream);
    case 12:
      return run<T, 2, C, Keys, 3, 6>(a, p, stream);
    case 16:
      return run<T, 2, C, Keys, 4, 8>(a, p, stream);
  }
  return cudaErrorNotSupported;
}

template <class T>
cudaError_t run(const AttentionArgs& a, const RowsParams& p, cudaStream_t stream) {
  const bool wide = a.keys > 16;
  switch (a.dim) {
    case 32:
      return wide ? run<T, 1, 2>(a, p, stream) : run<T, 1, 1>(a, p, stream);
    case 64:
      return wide ? run<T, 2, 2>(a, p, stream) : run<T, 2, 1>(a, p, stream);
  }
  return cudaErrorNotSupported;
}

}  // namespace

cudaError_t launchAttentionRows(const AttentionArgs& a, const GemmArgs& p, cudaStream_t stream) {
  const MaskKind own = a.dtype == Dtype::kHalf ? MaskKind::kHalf : MaskKind::kBfloat16;
  if (!rowsTake(p) || a.queries < 1 || a.queries > 16 || a.keys < 1 || a.keys > 32 || a.dim != a.dimV ||
      a.batch > 65535 || p.k != int64_t{a.heads} * a.dim || (a.mask.kind != MaskKind::kNone && a.mask.kind != own))
    return cudaErrorNotSupported;
  constexpr int64_t kFar = INT32_MAX / 32;
  for (int d = 0; d < 3; ++d) {
    if (a.qs[d] % 8 || a.ks[d] % 8 || a.vs[d] % 8) return cudaErrorNotSupported;
  }
  if (a.qs[2] > kFar || a.ks[2] > kFar || a.vs[2] > kFar || a.mask.stride[3] > kFar) return cudaErrorNotSupported;
  if (!aligned(a.q, 16) || !aligned(a.k, 16) || !aligned(a.v, 16)) return cudaErrorNotSupported;
  const RowsParams rows = rowsParams(p, nullptr, 0);
  return a.dtype == Dtype::kHalf ? run<__half>(a, rows, stream) : run<__nv_bfloat16>(a, rows, stream);
}

}  // namespace graft::cuda
