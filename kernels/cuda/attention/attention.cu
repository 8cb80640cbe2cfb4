// softmax(q k^T * scale + mask) v without writing the scores to memory: FlashAttention-2 on mma.sync m16n8k16, fp16 and
// bf16, sm_80 and newer.
//
// Shapes: q [B,H,S,D], k and v [B,Hkv,T,D], out [B,H,S,D]; H a multiple of Hkv, D a multiple of 8 up to 256. Strides of
// batch, head and position are any multiples of 8 elements. Any broadcastable mask; causal keeps key j <= query i.
// Scores, sums and output are accumulated in fp32. A row that is masked out entirely gives zeros.
//
// A block owns 16*MT*WM queries, MT tiles of 16 per warp. Two tiles halve the reads of K and V from shared memory, the
// bottleneck otherwise. The WM*WK warps form WM query groups and WK key groups: at batch 1 there are too few queries to
// fill the GPU, so several key groups share a query's work and merge their partial softmaxes in shared memory at the
// end. Tiles of BN keys of K and V arrive by cp.async, double buffered.
//
// Source: Dao, FlashAttention-2 (2023), algorithm 1; the merge is that of split-KV decoding (Flash-Decoding, 2023).
#include "kernels/cuda/attention/mask.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/mma.cuh"

namespace graft::cuda {
namespace {

enum MaskMode { kNoMask, kKeyMask, kFullMask };

__device__ __forceinline__ uint32_t shared32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copyAsync16(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void copyWaitAll() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void loadMatrix4(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void loadMatrix4T(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

template <int D, int MT, int WM, int WK, int BN>
struct Shape {
  static_assert(MT == 1 || WK == 1);
  static constexpr int kRows = MT * WM * 16, kThreads = WM * WK * 32,
                       kPitch = D + 8;       // elements; avoids bank conflicts of ldmatrix
  static constexpr int kTile = BN * kPitch;  // elements of one K or V tile
  static constexpr int kMaskBytes = 2 * BN * 4;
  static constexpr int kMergePitch = D + 4;
  static constexpr int kMergeBytes = WK > 1 ? WK* WM * 16 * (kMergePitch + 2) * 4 : 0;
  static constexpr int kTileBytes = 4 * kTile * 2;
  static constexpr int kSmem = (kTileBytes > kMergeBytes ? kTileBytes : kMergeBytes) + kMaskBytes;
};

template <class T, int D, int MT, int WM, int WK, int BN, int Mode>
__global__ void __launch_bounds__(WM* WK * 32) flash(const AttentionArgs a) {
  using Sh = Shape<D, MT, WM, WK, BN>;
  constexpr int kKeys = BN / WK;  // of one warp, per tile
  extern __shared__ __align__(16) uint8_t smem[];
  T* tiles = reinterpret_cast<T*>(smem);  // K0 V0 K1 V1
  float* maskTile = reinterpret_cast<float*>(smem + Sh::kSmem - Sh::kMaskBytes);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int wm = warp % WM, wk = warp / WM;
  const int q0 = blockIdx.x * Sh::kRows, head = blockIdx.y, batch = blockIdx.z;
  const int kvHead = head / (a.heads / a.kvHeads);
  pdlTrigger();
  pdlWait();

  const T* k = static_cast<const T*>(a.k) + batch * a.ks[0] + kvHead * a.ks[1];
  const T* v = static_cast<const T*>(a.v) + batch * a.vs[0] + kvHead * a.vs[1];
  const int64_t maskBase = batch * a.mask.stride[0] + head * a.mask.stride[1];
  const int keys = a.causal ? min(a.keys, q0 + Sh::kRows) : a.keys;

  auto loadTile = [&](int tile, int buffer) {
    T* toK = tiles + buffer * 2 * Sh::kTile;
    constexpr int kChunks = D / 8;
#pragma unroll
    for (int c = threadIdx.x; c < BN * kChunks; c += Sh::kThreads) {
      const int row = c / kChunks, column = c % kChunks * 8, key = tile * BN + row;
      const bool valid = key < keys && column < a.dim;
      const int64_t at = valid ? key : 0, col = valid ? column : 0;
      copyAsync16(shared32(toK + row * Sh::kPitch + column), k + at * a.ks[2] + col, valid);
      copyAsync16(shared32(toK + Sh::kTile + row * Sh::kPitch + column), v + at * a.vs[2] + col, valid);
    }
    copyCommit();
  };
  // Each thread handles one mask value of a tile. It is loaded before the work on the previous tile and stored after
  // it, so that the work hides the load's latency.
  static_assert(BN <= Sh::kThreads);
  const auto maskKey = [&](int tile) { return tile * BN + static_cast<int>(threadIdx.x); };
  auto readMask = [&](int tile) {
    return threadIdx.x < BN && maskKey(tile) < keys ? loadMaskBits(a.mask, maskBase + maskKey(tile) * a.mask.stride[3])
                                                    : 0u;
  };
  auto storeMask = [&](int tile, uint32_t bits) {
    if (threadIdx.x < BN) {
      maskTile[(tile & 1) * BN + threadIdx.x] =
          maskKey(tile) < keys ? maskLog2(maskOfBits(a.mask.kind, bits)) : -INFINITY;
    }
  };

  // The queries as matrix operands, loaded once. rowOf: row i (0 or 1) of this thread in tile m.
  const auto rowOf = [&](int m, int i) { return q0 + (wm * MT + m) * 16 + g + i * 8; };
  uint32_t qf[MT][D / 16][4];
  {
    const T* q = static_cast<const T*>(a.q) + batch * a.qs[0] + head * a.qs[1];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = rowOf(m, i & 1), column = kk * 16 + (i >> 1) * 8 + t * 2;
          qf[m][kk][i] =
              row < a.queries && column < a.dim ? *reinterpret_cast<const uint32_t*>(q + row * a.qs[2] + column) : 0u;
        }
      }
    }
  }

  const int tileCount = (keys + BN - 1) / BN;
  if (tileCount > 0) {
    loadTile(0, 0);
    if (Mode == kKeyMask) storeMask(0, readMask(0));
  }

  float o[MT][D / 8][4], top[MT][2], sum[MT][2];
#pragma unroll
  for (int m = 0; m < MT; ++m) {
    top[m][0] = top[m][1] = -INFINITY, sum[m][0] = sum[m][1] = 0.f;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) o[m][j][0] = o[m][j][1] = o[m][j][2] = o[m][j][3] = 0.f;
  }
  const float scale = a.scale * kLog2e;

#pragma unroll 1
  for (int tile = 0; tile < tileCount; ++tile) {
    copyWaitAll();
    __syncthreads();
    uint32_t nextMask = 0;
    if (tile + 1 < tileCount) {
      loadTile(tile + 1, (tile + 1) & 1);
      if (Mode == kKeyMask) nextMask = readMask(tile + 1);
    }
    const int keyBase = tile * BN + wk * kKeys;
    if (keyBase >= keys) continue;  // uniform in the warp; there is no next tile then
    const T* kTile = tiles + (tile & 1) * 2 * Sh::kTile + wk * kKeys * Sh::kPitch;
    const T* vTile = kTile + Sh::kTile;
    const float* masks = maskTile + (tile & 1) * BN + wk * kKeys + t * 2;

    float s[MT][kKeys / 8][4];
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
      for (int m = 0; m < MT; ++m) s[m][j][0] = s[m][j][1] = s[m][j][2] = s[m][j][3] = 0.f;
#pragma unroll
      for (int kk = 0; kk < D / 16; kk += 2) {
        uint32_t b[4];
        loadMatrix4(b, shared32(kTile + (j * 8 + lane % 8) * Sh::kPitch + kk * 16 + lane / 8 * 8));
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma<T>(s[m][j], qf[m][kk], b[0], b[1]);
          mma<T>(s[m][j], qf[m][kk + 1], b[2], b[3]);
        }
      }
    }

    // Scale and mask. A key mask also hides what lies beyond the last key (storeMask).
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
      float2 add = make_float2(0.f, 0.f);
      if (Mode == kKeyMask) add = *reinterpret_cast<const float2*>(masks + j * 8);
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        s[m][j][0] = fmaf(s[m][j][0], scale, add.x), s[m][j][1] = fmaf(s[m][j][1], scale, add.y);
        s[m][j][2] = fmaf(s[m][j][2], scale, add.x), s[m][j][3] = fmaf(s[m][j][3], scale, add.y);
      }
    }
    const bool ragged = Mode != kKeyMask && keyBase + kKeys > keys;
    const bool diagonal = a.causal && keyBase + kKeys > q0 + wm * MT * 16;
    if (Mode == kFullMask || ragged || diagonal) {
#pragma unroll
      for (int m = 0; m < MT; ++m) {
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = keyBase + j * 8 + t * 2 + (i & 1), row = rowOf(m, i >> 1);
            if (Mode == kFullMask && key < a.keys && row < a.queries) {
              s[m][j][i] += maskLog2(loadMask(a.mask, maskBase + row * a.mask.stride[2] + key * a.mask.stride[3]));
            }
            if (key >= keys || (a.causal && key > row)) s[m][j][i] = -INFINITY;
          }
        }
      }
    }

#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float high = top[m][i];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) high = fmaxf(high, fmaxf(s[m][j][2 * i], s[m][j][2 * i + 1]));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
        high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
        const float base = high == -INFINITY ? 0.f : high;
        const float shrink = exp2Fast(top[m][i] - base);
        top[m][i] = high;
        float total = 0.f;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
          s[m][j][2 * i] = exp2Fast(s[m][j][2 * i] - base);
          s[m][j][2 * i + 1] = exp2Fast(s[m][j][2 * i + 1] - base);
          total += s[m][j][2 * i] + s[m][j][2 * i + 1];
        }
        sum[m][i] = sum[m][i] * shrink + total;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) o[m][j][2 * i] *= shrink, o[m][j][2 * i + 1] *= shrink;
      }
    }

#pragma unroll
    for (int kb = 0; kb < kKeys / 16; ++kb) {
      uint32_t p[MT][4];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        p[m][0] = pack2<T>(s[m][2 * kb][0], s[m][2 * kb][1]), p[m][1] = pack2<T>(s[m][2 * kb][2], s[m][2 * kb][3]);
        p[m][2] = pack2<T>(s[m][2 * kb + 1][0], s[m][2 * kb + 1][1]);
        p[m][3] = pack2<T>(s[m][2 * kb + 1][2], s[m][2 * kb + 1][3]);
      }
#pragma unroll
      for (int j = 0; j < D / 8; j += 2) {
        uint32_t b[4];
        loadMatrix4T(b, shared32(vTile + (kb * 16 + lane % 16) * Sh::kPitch + j * 8 + lane / 16 * 8));
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma<T>(o[m][j], p[m], b[0], b[1]);
          mma<T>(o[m][j + 1], p[m], b[2], b[3]);
        }
      }
    }
    if (Mode == kKeyMask) storeMask(tile + 1, nextMask);
  }
#pragma unroll
  for (int m = 0; m < MT; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum[m][i] += __shfl_xor_sync(~0u, sum[m][i], 1);
      sum[m][i] += __shfl_xor_sync(~0u, sum[m][i], 2);
    }
  }

  T* out = static_cast<T*>(a.out) + batch * a.os[0] + head * a.os[1];
  if constexpr (WK == 1) {
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = rowOf(m, i);
        const float inverse = sum[m][i] == 0.f ? 0.f : 1.f / sum[m][i];
        if (row >= a.queries) continue;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
          if (j * 8 >= a.dim) break;
          *reinterpret_cast<uint32_t*>(out + row * a.os[2] + j * 8 + t * 2) =
              pack2<T>(o[m][j][2 * i] * inverse, o[m][j][2 * i + 1] * inverse);
        }
      }
    }
  } else {
    // Every key group stores maximum, sum and output of its rows; then all threads merge them.
    float* outs = reinterpret_cast<float*>(smem);
    float* stats = outs + WK * WM * 16 * Sh::kMergePitch;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = (wk * WM + wm) * 16 + g + i * 8;
      if (t == 0) stats[row * 2] = top[0][i], stats[row * 2 + 1] = sum[0][i];
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        *reinterpret_cast<float2*>(outs + row * Sh::kMergePitch + j * 8 + t * 2) =
            make_float2(o[0][j][2 * i], o[0][j][2 * i + 1]);
      }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < WM * 16 * (D / 4); c += Sh::kThreads) {
      const int r = c / (D / 4), column = c % (D / 4) * 4, row = q0 + r;
      if (row >= a.queries || column >= a.dim) continue;
      float high = -INFINITY, total = 0.f, v[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int w = 0; w < WK; ++w) high = fmaxf(high, stats[(w * WM * 16 + r) * 2]);
#pragma unroll
      for (int w = 0; w < WK; ++w) {
        const float f = high == -INFINITY ? 1.f : exp2Fast(stats[(w * WM * 16 + r) * 2] - high);
        total += stats[(w * WM * 16 + r) * 2 + 1] * f;
        const float4 part = *reinterpret_cast<const float4*>(outs + (w * WM * 16 + r) * Sh::kMergePitch + column);
        v[0] += part.x * f, v[1] += part.y * f, v[2] += part.z * f, v[3] += part.w * f;
      }
      const float inverse = total == 0.f ? 0.f : 1.f / total;
      uint2 packed = {pack2<T>(v[0] * inverse, v[1] * inverse), pack2<T>(v[2] * inverse, v[3] * inverse)};
      *reinterpret_cast<uint2*>(out + row * a.os[2] + column) = packed;
    }
  }
}

template <class T, int D, int MT, int WM, int WK, int BN, int Mode>
cudaError_t run(const AttentionArgs& a, cudaStream_t stream) {
  using Sh = Shape<D, MT, WM, WK, BN>;
  auto kernel = flash<T, D, MT, WM, WK, BN, Mode>;
  static std::atomic<uint64_t> configured{0};
  if (const cudaError_t failed = allowShared(kernel, Sh::kSmem, configured); failed != cudaSuccess) return failed;
  const dim3 grid((a.queries + Sh::kRows - 1) / Sh::kRows, a.heads, a.batch);
  return launch(kernel, grid, Sh::kThreads, Sh::kSmem, stream, a.pdl, a);
}

template <class T, int D, int MT, int WM, int WK, int BN>
cudaError_t byMask(const AttentionArgs& a, cudaStream_t stream) {
  if (a.mask.kind == MaskKind::kNone) return run<T, D, MT, WM, WK, BN, kNoMask>(a, stream);
  if (a.mask.stride[2] == 0) return run<T, D, MT, WM, WK, BN, kKeyMask>(a, stream);
  return run<T, D, MT, WM, WK, BN, kFullMask>(a, stream);
}

template <class T, int D>
cudaError_t byShape(const AttentionArgs& a, cudaStream_t stream) {
  const int64_t pairs = int64_t{a.batch} * a.heads;
  const auto blocks = [&](int rows) { return (a.queries + rows - 1) / rows * pairs; };
  if constexpr (D <= 64) {
    if (blocks(128) >= 264 && a.queries > 64) return byMask<T, D, 2, 4, 1, 64>(a, stream);
  }
  if constexpr (D <= 64) {
    if (blocks(64) >= 60 && blocks(64) < 200 && a.queries > 32 && a.keys > 128)
      return byMask<T, D, 1, 4, 4, 256>(a, stream);
  }
  if constexpr (D <= 128) {
    if (blocks(64) >= 96 && a.queries > 32) return byMask<T, D, 1, 4, 1, 64>(a, stream);
  }
  if (blocks(32) >= 96) return byMask<T, D, 1, 2, 2, 64>(a, stream);
  // Above 128, queries and output alone take 192 registers of a thread: that leaves few for keys.
  return byMask < T, D, 1, 1, 4, D <= 128 ? 128 : 64 > (a, stream);
}

template <class T>
cudaError_t byDim(const AttentionArgs& a, cudaStream_t stream) {
  if (a.dim <= 32) return byShape<T, 32>(a, stream);
  if (a.dim <= 64) return byShape<T, 64>(a, stream);
  if (a.dim <= 96) return byShape<T, 96>(a, stream);
  if (a.dim <= 128) return byShape<T, 128>(a, stream);
  return byShape<T, 256>(a, stream);
}

}  // namespace

cudaError_t launchAttention(const AttentionArgs& a, cudaStream_t stream) {
  const auto bad = [](const void* p, const int64_t(&s)[3]) {
    return reinterpret_cast<uintptr_t>(p) % 16 || s[0] % 8 || s[1] % 8 || s[2] % 8;
  };
  if (a.dim % 8 || a.dim > 256 || a.dimV != a.dim || a.heads % a.kvHeads || a.batch > 65535 || a.heads > 65535)
    return cudaErrorNotSupported;
  if (bad(a.q, a.qs) || bad(a.k, a.ks) || bad(a.v, a.vs) || bad(a.out, a.os)) return cudaErrorNotSupported;
  if (a.batch == 0 || a.heads == 0 || a.queries == 0) return cudaSuccess;
  if (a.dtype == Dtype::kHalf) return byDim<__half>(a, stream);
  if (a.dtype == Dtype::kBfloat16) return byDim<__nv_bfloat16>(a, stream);
  return cudaErrorNotSupported;
}

}  // namespace graft::cuda
