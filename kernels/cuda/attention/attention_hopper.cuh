#pragma once
// The parts of attention_hopper.cu: a block's shape and its work items, wgmma with A in registers and B stored with
// rows along K (V as it lies in memory), TMA loads from a 4-D tensor, and the steps of one tile: mask, online softmax,
// both products.
//
// Layout of A in registers, thread t of the warpgroup, 16 columns along K: a[0] is row t/32*16 + t%32/4, columns
// t%4*2 + {0,1}; a[1] lies eight rows below; a[2] and a[3] lie eight columns to the right. It is the accumulator's
// layout, so the result of one product is the operand of the next without an exchange between threads.
#include "kernels/cuda/attention/mask.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/hopper.cuh"

namespace graft::cuda {

// kKeys: one mask value per key, which warps of their own read ahead of time. kRows: a value per query and key, in
// tiles that TMA loads together with those of K.
enum class Masks { kNone, kKeys, kRows };
constexpr int kMaskWarps = 3;  // the producer's warpgroup has four warps

template <int Panels, int Groups, int Split, int BN, int Stages, int QBuffers, Masks M>
struct AttentionShape {
  static constexpr int kPanels = Panels, kSplit = Split, kKeys = BN, kStages = Stages, kQBuffers = QBuffers;
  static constexpr int kQueryGroups = Groups / Split,
                       kConsumers = Groups * 128;  // warpgroups with different queries; consumer threads
  static constexpr Masks kMasks = M;
  static constexpr int kRows = 64 * Groups / Split, kThreads = Groups * 128 + 128;
  // The number of threads in __launch_bounds__, which limits the registers. With Split it is larger than the block: the
  // next kernel needs registers on the same SM to load its weights ahead.
  static constexpr int kBound = Split > 1 ? kThreads + 128 : kThreads;
  static constexpr int kProducerRegisters = M == Masks::kKeys ? 32 : 24;
  static constexpr int kQGroup = Panels * 64 * 128;  // bytes of 64 queries; a panel is 64 columns of the head
  static constexpr int kQBytes = Groups / Split * kQGroup;
  static constexpr int kTile = Panels * BN * 128;                         // bytes of one K or V tile
  static constexpr int kMaskGroup = M == Masks::kRows ? 64 * BN * 2 : 0;  // bytes of a tile's mask for 64 queries
  static constexpr int kMask = Groups / Split * kMaskGroup;
  static constexpr int kRing = QBuffers * kQBytes, kSmem = kRing + Stages * (2 * kTile + kMask);
  static constexpr int kMergeFloats = Panels * 32 + 4;  // of one thread, in mergeParts
  // Warpgroups with different queries take turns to issue products, so that one uses the tensor cores while the others
  // compute their softmax.
  static constexpr bool kTurns = Groups > 1 && Split == 1;
  // With Split a warpgroup skips tiles. Each stage must hold tiles of one warpgroup only: a parity cannot tell a phase
  // from the one after the next.
  static_assert(Stages % Split == 0 && Stages >= kMaskWarps);
  static_assert(Split == 1 || (Split - 1) * (Groups / Split) * kMergeFloats * 128 * 4 <= 2 * Stages * kTile);
};

// The mbarriers of a block: full when a tile has arrived, empty when its memory may be refilled.
template <class Sh>
struct __align__(8) AttentionBarriers {
  uint64_t fullQ[Sh::kQBuffers], emptyQ[Sh::kQBuffers];
  uint64_t fullK[Sh::kStages], emptyK[Sh::kStages], fullV[Sh::kStages], emptyV[Sh::kStages];
};

struct AttentionParams {
  void* out;
  int64_t os[3];
  MaskArg mask;
  int heads, kvShare, queries, keys, dim, queryTiles, items;
  int stepTile, stepHead, stepBatch;  // from one item of a block to the next
  float scale;                        // of the scores, times log2(e)
  float maskScale;
  bool causal;
};

// A block's work items in order: (batch, head, tile of queries). Tiles of one head follow one another, because they
// share K and V in the L2. Only the first item needs divisions, which run while the block waits for the previous
// kernel.
struct AttentionItem {
  int number, tile, head, batch;

  __device__ __forceinline__ explicit AttentionItem(const AttentionParams& p) : number(blockIdx.x) {
    const int pair = number / p.queryTiles;
    tile = number - pair * p.queryTiles;
    batch = pair / p.heads;
    head = pair - batch * p.heads;
  }
  __device__ __forceinline__ void next(const AttentionParams& p) {
    number += gridDim.x;
    tile += p.stepTile, head += p.stepHead, batch += p.stepBatch;
    if (tile >= p.queryTiles) tile -= p.queryTiles, ++head;
    if (head >= p.heads) head -= p.heads, ++batch;
  }
};

#ifdef GRAFT_HOPPER
// Matrix descriptors, computed as 32-bit halves: 64-bit sums would take twice the instructions. The high half is the
// same for both kinds of tiles: 1024 bytes from eight rows to the next eight, 128-byte swizzle. The low half
// - of a tile [64 or BN rows][64 columns of K]: lowOfTile, as in tileDescriptor; +2 is the next 16 of K;
// - of a tile [rows along K][64 columns]: lowOfRows; +128 is the next 16 of K. `panel` is the distance in bytes to the
//   next 64 columns.
__device__ __forceinline__ uint64_t descriptorOf(uint32_t low) { return (uint64_t{64 | 1u << 30} << 32) | low; }
__device__ __forceinline__ uint32_t lowOfTile(uint32_t address) { return (address >> 4) + (1u << 16); }
__device__ __forceinline__ uint32_t lowOfRows(uint32_t address, uint32_t panel) {
  return (address >> 4) + (panel >> 4 << 16);
}

template <class T, int N>
struct WgmmaRows;

#define GRAFT_ACC8(i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define GRAFT_ROWS_64(T, name)                                                                                         \
  template <>                                                                                                          \
  struct WgmmaRows<T, 64> {                                                                                            \
    static __device__ __forceinline__ void run(float (&d)[32], const uint32_t* a, uint64_t b, int accumulate) {        \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name  \
                   " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
                   "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                                          \
                   "{%32, %33, %34, %35}, %36, p, 1, 1, 1; }"                                                          \
                   : GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24)                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                             \
    }                                                                                                                  \
  };
#define GRAFT_ROWS_128(T, name)                                                                                        \
  template <>                                                                                                          \
  struct WgmmaRows<T, 128> {                                                                                           \
    static __device__ __forceinline__ void run(float (&d)[64], const uint32_t* a, uint64_t b, int accumulate) {        \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." name "." name \
                   " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
                   "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "   \
                   "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "   \
                   "%59, %60, %61, %62, %63}, "                                                                        \
                   "{%64, %65, %66, %67}, %68, p, 1, 1, 1; }"                                                          \
                   : GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24), GRAFT_ACC8(32), GRAFT_ACC8(40),     \
                     GRAFT_ACC8(48), GRAFT_ACC8(56)                                                                    \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                             \
    }                                                                                                                  \
  };
GRAFT_ROWS_64(__half, "f16")
GRAFT_ROWS_64(__nv_bfloat16, "bf16")
GRAFT_ROWS_128(__half, "f16")
GRAFT_ROWS_128(__nv_bfloat16, "bf16")
#undef GRAFT_ROWS_64
#undef GRAFT_ROWS_128
#undef GRAFT_ACC8

// Loads a box of a 4-D tensor map [batch, head, position, column] into shared memory; `bar` counts its bytes. Called by
// a whole warp, done by one lane of it (electLane in hopper.cuh).
__device__ __forceinline__ void tmaLoadHeadElected(uint32_t elected, uint32_t shared, const CUtensorMap* map,
                                                   uint32_t bar, int column, int position, int head, int batch) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %7, 0;\n"
      "@p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2]; }" ::"r"(shared),
      "l"(map), "r"(bar), "r"(column), "r"(position), "r"(head), "r"(batch), "r"(elected)
      : "memory");
}

// One tile's mask by key in shared memory, as it is added to the scores. The scores are not scaled, so the mask is
// divided by the scale.
template <int BN>
struct __align__(8) KeyMask {
  float values[BN];
  uint32_t any;  ///< whether any value is not zero; in most tiles of a padding mask none is

  /// Called by a whole warp. `from`: the element of the mask for key 0.
  __device__ __forceinline__ void fill(const MaskArg& mask, int64_t from, int firstKey, int keys, float scale,
                                       int lane) {
    // A short loop for each kind: it runs once or twice in a kernel, so each instruction costs a fetch.
    switch (mask.kind) {
      case MaskKind::kHalf:
        return fillWith<__half>(mask, from, firstKey, keys, scale, lane, [](__half x) { return __half2float(x); });
      case MaskKind::kBfloat16:
        return fillWith<__nv_bfloat16>(mask, from, firstKey, keys, scale, lane,
                                       [](__nv_bfloat16 x) { return __bfloat162float(x); });
      case MaskKind::kFloat:
        return fillWith<float>(mask, from, firstKey, keys, scale, lane, [](float x) { return x; });
      default:
        return fillWith<uint8_t>(mask, from, firstKey, keys, scale, lane,
                                 [](uint8_t x) { return x ? 0.f : -INFINITY; });
    }
  }

  template <class T, class Value>
  __device__ __forceinline__ void fillWith(const MaskArg& mask, int64_t from, int firstKey, int keys, float scale,
                                           int lane, const Value& value) {
    const T* at = static_cast<const T*>(mask.data) + from + (firstKey + lane) * mask.stride[3];
    const int64_t step = 32 * mask.stride[3];
    float m[BN / 32];
#pragma unroll
    for (int c = 0; c < BN / 32; ++c, at += step) m[c] = firstKey + c * 32 + lane < keys ? value(*at) : 0.f;
    bool some = false;
#pragma unroll
    for (int c = 0; c < BN / 32; ++c) {
      some = some || m[c] != 0.f;
      // fp16 values never reach the range where maskUnscaled differs; a bool gives 0 or -infinity.
      values[c * 32 + lane] =
          std::is_same_v<T, __half> || std::is_same_v<T, uint8_t> ? m[c] * scale : maskUnscaled(m[c], scale);
    }
    some = __any_sync(~0u, some);
    if (lane == 0) any = some;
  }

  __device__ __forceinline__ void add(float(&s)[BN / 2], int lane) const {
    if (!any) return;
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      const float2 m = *reinterpret_cast<const float2*>(values + j * 8 + lane % 4 * 2);
      s[4 * j] += m.x, s[4 * j + 1] += m.y, s[4 * j + 2] += m.x, s[4 * j + 3] += m.y;
    }
  }
};

// Fills the key masks of all tiles of a block's items, stage after stage. Called by kMaskWarps warps, each of which
// takes one tile in three, because loading a tile's mask takes longer than computing its scores. `tilesOf(item)` is the
// item's number of tiles. Every lane arrives at fullK, and every lane that has added the mask arrives at emptyK. One
// arrival per warp would be as fast, but compute-sanitizer's racecheck would not see the order.
template <int Stages, int BN, class TilesOf>
__device__ __forceinline__ void readKeyMasks(KeyMask<BN> (&masks)[Stages], uint64_t (&fullK)[Stages],
                                             uint64_t (&emptyK)[Stages], int warp, int lane, const AttentionParams& p,
                                             const TilesOf& tilesOf) {
  AttentionItem item(p);
  int s = warp, tile = warp;
  uint32_t parity = 1;
  const auto settle = [&] {
    for (int tiles; item.number < p.items && tile >= (tiles = tilesOf(item)); item.next(p)) tile -= tiles;
  };
  settle();
  // The first pass is dry: it reads nothing, and fetches the instructions before the wait for the previous kernel.
  bool dry = true;
#pragma unroll 1
  while (item.number < p.items) {
    const int64_t from = item.batch * p.mask.stride[0] + item.head * p.mask.stride[1];
    if (!dry) barrierWait(&emptyK[s], parity);
    masks[s].fill(p.mask, from, tile * BN, dry ? 0 : p.keys, p.maskScale, lane);
    if (dry) {
      pdlWait();
      dry = false;
      continue;
    }
    barrierArrive(&fullK[s]);
    if ((s += kMaskWarps) >= Stages) s -= Stages, parity ^= 1;
    tile += kMaskWarps;
    settle();
  }
}

// Adds a tile of a mask by query and key to the scores. In shared memory it is 64 rows of 64 values of type T, 128-byte
// swizzled.
template <class T>
__device__ __forceinline__ void addMaskTile(float (&s)[32], uint32_t tile, float scale, int inGroup, int lane) {
  const int row = inGroup * 16 + lane % 16;
  const uint32_t from = tile + row * 128 + (((lane / 16) ^ (row % 8)) << 4);
  uint32_t m[4][4];
  uint32_t any = 0;
#pragma unroll
  for (int c = 0; c < 4; ++c) {  // 16 columns
    loadMatrix4(from ^ (c << 5), m[c]);
    any |= m[c][0] | m[c][1] | m[c][2] | m[c][3];
  }
  if (!__any_sync(~0u, any != 0)) return;
  const auto scaled = [&](float x) { return std::is_same_v<T, __half> ? x * scale : maskUnscaled(x, scale); };
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const float2 f = unpack2<T>(m[c][b]);
      s[8 * c + 2 * b] += scaled(f.x), s[8 * c + 2 * b + 1] += scaled(f.y);
    }
  }
}

// Sets scores beyond the last key that a row sees to -infinity: from end0 on for the upper row, end1 for the lower.
template <int BN>
__device__ __forceinline__ void hideBeyond(float (&s)[BN / 2], int firstKey, int lane, int end0, int end1) {
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int key = firstKey + j * 8 + lane % 4 * 2;
    if (key >= end0) s[4 * j] = -INFINITY;
    if (key + 1 >= end0) s[4 * j + 1] = -INFINITY;
    if (key >= end1) s[4 * j + 2] = -INFINITY;
    if (key + 1 >= end1) s[4 * j + 3] = -INFINITY;
  }
}

// The online softmax of a thread's two rows. `top` is subtracted from the scores. It is not always the largest score so
// far: it moves only when the weights would exceed 2^8, so that the output is rarely rescaled.
struct OnlineSoftmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, shrink[2] = {1.f, 1.f};
};

// Turns a tile's scores into weights in place and updates sums and maxima. True where the output so far must be
// multiplied by `shrink`. `slack`: how far unscaled scores may exceed `top`.
template <int BN>
__device__ __forceinline__ bool softmaxTile(float (&s)[BN / 2], OnlineSoftmax& r, float scale, float slack) {
  float high[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float a = fmaxf(s[2 * i], s[2 * i + 1]), b = fmaxf(s[4 + 2 * i], s[4 + 2 * i + 1]);
#pragma unroll
    for (int j = 2; j < BN / 8; j += 2) {
      a = fmaxf(a, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
      b = fmaxf(b, fmaxf(s[4 * j + 4 + 2 * i], s[4 * j + 5 + 2 * i]));
    }
    a = fmaxf(a, b);
    a = fmaxf(a, __shfl_xor_sync(~0u, a, 1));
    high[i] = fmaxf(a, __shfl_xor_sync(~0u, a, 2));
  }
  const bool moved = __any_sync(~0u, high[0] > r.top[0] + slack || high[1] > r.top[1] + slack);
  float base[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (moved) {
      const float top = fmaxf(high[i], r.top[i]);
      r.shrink[i] = exp2Fast((r.top[i] - (top == -INFINITY ? 0.f : top)) * scale);
      r.sum[i] *= r.shrink[i];
      r.top[i] = top;
    }
    base[i] = r.top[i] == -INFINITY ? 0.f : -r.top[i] * scale;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      s[4 * j + 2 * i] = exp2Fast(fmaf(s[4 * j + 2 * i], scale, base[i]));
      s[4 * j + 2 * i + 1] = exp2Fast(fmaf(s[4 * j + 2 * i + 1], scale, base[i]));
      a += s[4 * j + 2 * i], b += s[4 * j + 2 * i + 1];
    }
    r.sum[i] += a + b;
  }
  return moved;
}

template <class T, int BN>
__device__ __forceinline__ void pack(const float (&s)[BN / 2], uint32_t (&p)[BN / 4]) {
#pragma unroll
  for (int i = 0; i < BN / 4; ++i) p[i] = pack2<T>(s[2 * i], s[2 * i + 1]);
}

// The two products: scores = Q K^T, products = P V. `q` and `k` are low halves of descriptors (lowOfTile), `v` of
// lowOfRows.
template <class T, int Panels, int BN>
__device__ __forceinline__ void scores(float (&s)[BN / 2], uint32_t q, uint32_t k) {
#pragma unroll
  for (int panel = 0; panel < Panels; ++panel) {
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      const uint32_t step = kk * 2;
      Wgmma<T, BN>::run(s, descriptorOf(q + panel * (64 * 128 >> 4) + step),
                        descriptorOf(k + panel * (BN * 128 >> 4) + step), panel > 0 || kk > 0);
    }
  }
}
template <class T, int Panels, int BN>
__device__ __forceinline__ void products(float (&o)[Panels * 32], const uint32_t (&p)[BN / 4], uint32_t v, bool add) {
#pragma unroll
  for (int kb = 0; kb < BN / 16; ++kb)
    WgmmaRows<T, Panels * 64>::run(o, p + kb * 4, descriptorOf(v + kb * 128), add || kb > 0);
}
#endif  // GRAFT_HOPPER

}  // namespace graft::cuda
