// softmax(q k^T * scale + mask) v on Hopper's warpgroup instructions, fp16 and bf16, without writing the scores to
// memory.
//
// Shapes and strides as in attention.cu: q [B,H,S,D], k and v [B,Hkv,T,D], D a multiple of 8 up to 128, H a multiple of
// Hkv. TMA takes any strides that are multiples of 8 elements, so q, k and v may be views of one projection's output.
// The mask is absent, by key, or by query and key in the type of q (with or without broadcast over batch and heads).
// scale > 0. A row that is masked out entirely gives zeros.
//
// A block consists of a producer warp, three warps that read a mask by key, and `Groups` consumer warpgroups. Blocks
// are persistent: across the block's work items the producer keeps rings of K and V tiles (BN keys) full by TMA. A
// warpgroup owns 64 queries. It computes S = Q K^T from shared memory, the online softmax in registers, and O += P V
// with P in registers. While the softmax of one tile runs, the tensor cores multiply the previous tile with V; other
// warpgroups and blocks fill the remaining gaps. With Split > 1, Split warpgroups share the same queries, each takes
// every Split-th tile of keys, and their partial softmaxes are merged at the end.
//
// Sources: Dao, FlashAttention-2 (2023), algorithm 1; Shah et al., FlashAttention-3 (2024), section 3.2 (the next
// tile's scores are issued before this tile's products); FlashAttention-4 for the maximum that moves only when it must.
#include "kernels/cuda/attention/attention_hopper.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gemm/tensor_map.h"

namespace graft::cuda {
namespace {

#ifdef GRAFT_HOPPER
// The number of tiles of keys that the queries from q0 on need.
template <class Sh>
__device__ __forceinline__ int tilesOf(const AttentionParams& p, int q0) {
  return ((p.causal ? min(p.keys, q0 + Sh::kRows) : p.keys) + Sh::kKeys - 1) / Sh::kKeys;
}

// The producer warp: loads Q, K, V and masks by row for all items of the block, ahead of the consumers.
template <class Sh>
__device__ __forceinline__ void fetchTiles(uint8_t* smem, AttentionBarriers<Sh>& bars, const CUtensorMap& mapQ,
                                           const CUtensorMap& mapK, const CUtensorMap& mapV, const CUtensorMap& mapMask,
                                           const AttentionParams& p) {
  const uint32_t elected = electLane(), memory = sharedAddress(smem);
  const uint32_t tilesK = memory + Sh::kRing, tilesV = tilesK + Sh::kStages * Sh::kTile,
                 masks = tilesV + Sh::kStages * Sh::kTile;
  const uint32_t fullQs = sharedAddress(bars.fullQ), emptyQs = sharedAddress(bars.emptyQ),
                 fullKs = sharedAddress(bars.fullK);
  const uint32_t emptyKs = sharedAddress(bars.emptyK), fullVs = sharedAddress(bars.fullV),
                 emptyVs = sharedAddress(bars.emptyV);
  if (elected) tmaPrefetchMap(&mapQ), tmaPrefetchMap(&mapK), tmaPrefetchMap(&mapV);
  AttentionItem item(p);
  int kvHead = item.head / p.kvShare;
  asm volatile("" ::"r"(item.tile), "r"(item.head), "r"(item.batch),
               "r"(kvHead));  // compute these before the wait, not after
  recordTimestamp(elected, Stage::kBeforeWait);
  pdlWait();
  recordTimestamp(elected, Stage::kAfterWait);
  int s = 0, qb = 0;
  // Parities of the phases of the empty barriers: a wait for the phase before the first returns at once.
  uint32_t parity = 1, parityQ = 1;
#pragma unroll 1
  for (; item.number < p.items; item.next(p), kvHead = p.kvShare == 1 ? item.head : item.head / p.kvShare) {
    const int q0 = item.tile * Sh::kRows, head = item.head, batch = item.batch;
    const int tiles = tilesOf<Sh>(p, q0);
    barrierWaitAt(emptyQs + qb * 8, parityQ);
    barrierExpectElected(elected, fullQs + qb * 8, Sh::kQBytes);
#pragma unroll
    for (int g = 0; g < Sh::kQueryGroups; ++g) {
#pragma unroll
      for (int panel = 0; panel < Sh::kPanels; ++panel) {
        tmaLoadHeadElected(elected, memory + qb * Sh::kQBytes + g * Sh::kQGroup + panel * 64 * 128, &mapQ,
                           fullQs + qb * 8, panel * 64, q0 + g * 64, head, batch);
      }
    }
    if (++qb == Sh::kQBuffers) qb = 0, parityQ ^= 1;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      barrierWaitAt(emptyKs + s * 8, parity);
      barrierExpectElected(elected, fullKs + s * 8, Sh::kTile + Sh::kMask);
      if constexpr (Sh::kMasks == Masks::kRows) {
#pragma unroll
        for (int g = 0; g < Sh::kQueryGroups; ++g) {
          tmaLoadHeadElected(elected, masks + s * Sh::kMask + g * Sh::kMaskGroup, &mapMask, fullKs + s * 8,
                             tile * Sh::kKeys, q0 + g * 64, p.mask.stride[1] ? head : 0, p.mask.stride[0] ? batch : 0);
        }
      }
#pragma unroll
      for (int panel = 0; panel < Sh::kPanels; ++panel) {
        tmaLoadHeadElected(elected, tilesK + s * Sh::kTile + panel * Sh::kKeys * 128, &mapK, fullKs + s * 8, panel * 64,
                           tile * Sh::kKeys, kvHead, batch);
      }
      barrierWaitAt(emptyVs + s * 8, parity);
      barrierExpectElected(elected, fullVs + s * 8, Sh::kTile);
#pragma unroll
      for (int panel = 0; panel < Sh::kPanels; ++panel) {
        tmaLoadHeadElected(elected, tilesV + s * Sh::kTile + panel * Sh::kKeys * 128, &mapV, fullVs + s * 8, panel * 64,
                           tile * Sh::kKeys, kvHead, batch);
      }
      if (++s == Sh::kStages) s = 0, parity ^= 1;
    }
  }
}

// Merges the partial softmaxes over parts of the keys; part 0 gets the result. Threads of the same number hold the same
// elements in all parts. `memory` holds kMergeFloats for each thread and part but 0. Called by all consumers.
template <class Sh>
__device__ __forceinline__ void mergeParts(float (&o)[Sh::kPanels * 32], OnlineSoftmax& r, float* memory, int group,
                                           int part, float scale) {
  constexpr int Split = Sh::kSplit, kSums = Sh::kPanels * 32;
  float* parts = memory + threadIdx.x % 128;
  const auto at = [&](int from, int j) -> float& {
    return parts[((group * (Split - 1) + from - 1) * Sh::kMergeFloats + j) * 128];
  };
  asm volatile("bar.sync 1, %0;" ::"n"(Sh::kConsumers) : "memory");
  if (part > 0) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) at(part, j) = o[j];
#pragma unroll
    for (int i = 0; i < 2; ++i) at(part, kSums + i) = r.top[i], at(part, kSums + 2 + i) = r.sum[i];
  }
  asm volatile("bar.sync 1, %0;" ::"n"(Sh::kConsumers) : "memory");
  if (part > 0) return;
  float factor[Split][2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float high = r.top[i];
#pragma unroll
    for (int from = 1; from < Split; ++from) high = fmaxf(high, at(from, kSums + i));
    high = high == -INFINITY ? 0.f : high;
    factor[0][i] = exp2Fast((r.top[i] - high) * scale);
    r.sum[i] *= factor[0][i];
#pragma unroll
    for (int from = 1; from < Split; ++from) {
      factor[from][i] = exp2Fast((at(from, kSums + i) - high) * scale);
      r.sum[i] += factor[from][i] * at(from, kSums + 2 + i);
    }
  }
#pragma unroll
  for (int j = 0; j < kSums; ++j) {
    o[j] *= factor[0][j / 2 % 2];
#pragma unroll
    for (int from = 1; from < Split; ++from) o[j] += factor[from][j / 2 % 2] * at(from, j);
  }
}

// Writes rows `row` and row + 8 of the item, divided by their sums. A row that saw no key becomes zeros.
template <class T, class Sh>
__device__ __forceinline__ void writeRows(const float (&o)[Sh::kPanels * 32], const OnlineSoftmax& r, T* out, int row,
                                          int lane, const AttentionParams& p) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float sum = r.sum[i];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const float inverse = sum == 0.f ? 0.f : 1.f / sum;
    const int m = row + i * 8;
#pragma unroll
    for (int j = 0; j < Sh::kPanels * 8; j += 4) {
      uint32_t x[4];
#pragma unroll
      for (int b = 0; b < 4; ++b)
        x[b] = pack2<T>(o[4 * (j + b) + 2 * i] * inverse, o[4 * (j + b) + 2 * i + 1] * inverse);
      quadTranspose(x, lane);
      const int column = (j + lane % 4) * 8;
      if (m < p.queries && column < p.dim)
        *reinterpret_cast<uint4*>(out + m * p.os[2] + column) = make_uint4(x[0], x[1], x[2], x[3]);
    }
  }
}
#endif  // GRAFT_HOPPER

template <class T, int Panels, int Groups, int Split, int BN, int Stages, int QBuffers, int Blocks, Masks M>
__global__ void __launch_bounds__(AttentionShape<Panels, Groups, Split, BN, Stages, QBuffers, M>::kBound, Blocks)
    attendHopper(const __grid_constant__ CUtensorMap mapQ, const __grid_constant__ CUtensorMap mapK,
                 const __grid_constant__ CUtensorMap mapV, const __grid_constant__ CUtensorMap mapMask,
                 const AttentionParams p) {
#ifdef GRAFT_HOPPER
  using Sh = AttentionShape<Panels, Groups, Split, BN, Stages, QBuffers, M>;
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ AttentionBarriers<Sh> bars;
  uint8_t *ringK = smem + Sh::kRing, *ringV = ringK + Stages * Sh::kTile;
  [[maybe_unused]] uint8_t* ringMask = ringV + Stages * Sh::kTile;
  __shared__ KeyMask<BN> keyMasks[M == Masks::kKeys ? Stages : 1];  // used with a mask by key only
  // The shuffle tells the compiler that `warp` is uniform: it serialises wgmma under branches that might diverge.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;

  recordTimestamp(threadIdx.x == 0, Stage::kEntry);
  if (threadIdx.x == 0) {
    for (int i = 0; i < QBuffers; ++i) barrierInit(&bars.fullQ[i], 1), barrierInit(&bars.emptyQ[i], Groups * 4);
    for (int i = 0; i < Stages; ++i) {
      barrierInit(&bars.fullK[i], M == Masks::kKeys ? 1 + 32 : 1), barrierInit(&bars.fullV[i], 1);
      barrierInit(&bars.emptyK[i], Groups / Split * (M == Masks::kKeys ? 128 : 4)),
          barrierInit(&bars.emptyV[i], Groups / Split * 4);
    }
    barrierInitFence();
  }
  __syncthreads();
  pdlTrigger();

  if (warp >= Groups * 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Sh::kProducerRegisters));
    if constexpr (M == Masks::kKeys) {
      const auto tilesOfItem = [&](const AttentionItem& item) { return tilesOf<Sh>(p, item.tile * Sh::kRows); };
      if (warp > Groups * 4)
        readKeyMasks<Stages, BN>(keyMasks, bars.fullK, bars.emptyK, warp - Groups * 4 - 1, lane, p, tilesOfItem);
    }
    if (warp > Groups * 4) return;
    fetchTiles<Sh>(smem, bars, mapQ, mapK, mapV, mapMask, p);
  } else {
    // The registers of the block at launch, less those that the producer's warpgroup keeps, shared by the consumers.
    constexpr int kAtLaunch = 65536 / (Blocks * Sh::kBound) / 8 * 8;
    constexpr int kRegisters = (kAtLaunch * (Groups + 1) - Sh::kProducerRegisters) / Groups / 8 * 8;
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters < 240 ? kRegisters : 240));
    AttentionItem item(p);
    asm volatile("" ::"r"(item.tile), "r"(item.head), "r"(item.batch));
    pdlWait();
    const int group = warp / 4 / Split, part = warp / 4 % Split;
    const float slack = 8.f / p.scale;
    const uint32_t firstK = lowOfTile(sharedAddress(ringK)), firstV = lowOfRows(sharedAddress(ringV), BN * 128);
    auto release = [&](uint64_t* bar) {
      if (lane == 0) barrierArrive(bar);
    };
    const auto releaseK = [&](int stage) {
      if (M == Masks::kKeys || lane == 0) barrierArrive(&bars.emptyK[stage]);
    };
    // Turns go round. With causal, warpgroups have different numbers of tiles, so there are no turns.
    const bool turns = Sh::kTurns && !p.causal;
    const int turn = warp / 4, after = turn + 1 == Groups ? 0 : turn + 1;
    const auto awaitTurn = [&] {
      if (turns) asm volatile("bar.sync %0, 256;" ::"r"(2 + turn) : "memory");
    };
    const auto passTurn = [&] {
      if (turns) asm volatile("bar.arrive %0, 256;" ::"r"(2 + after) : "memory");
    };
    if (after == 0) passTurn();
    int base = 0, round = 0;
    for (; item.number < p.items; item.next(p), ++round) {
      const int q0 = item.tile * Sh::kRows;
      const int qb = round % QBuffers, tiles = tilesOf<Sh>(p, q0);
      const int firstRow = q0 + group * 64, row = firstRow + warp % 4 * 16 + lane / 4;
      const int end0 = p.causal ? min(p.keys, row + 1) : p.keys, end1 = p.causal ? min(p.keys, row + 9) : p.keys;
      // With causal, upper rows need fewer tiles.
      const int mine = p.causal ? min(tiles, (firstRow + 63) / BN + 1) : tiles;
      const int clear = p.causal ? min(p.keys, firstRow + 1) : p.keys;  // all rows see the keys below this
      const uint32_t q = lowOfTile(sharedAddress(smem) + qb * Sh::kQBytes + group * Sh::kQGroup);

      float s[BN / 2], o[Panels * 32];
      uint32_t w[BN / 4];
      OnlineSoftmax r;
      bool moved = false;
      // A tile's stage, and the parity of the phase that fills it.
      struct Place {
        int stage;
        uint32_t parity;
      };
      const auto placeOf = [&](int tile) {
        return Place{(base + tile) % Stages, static_cast<uint32_t>((base + tile) / Stages) & 1};
      };
      const auto nextOf = [](Place at) {
        at.stage += Split;
        return at.stage >= Stages ? Place{at.stage - Stages, at.parity ^ 1} : at;
      };
      auto score = [&](Place at) {
        barrierWait(&bars.fullK[at.stage], at.parity);
        wgmmaFence();
        scores<T, Panels, BN>(s, q, firstK + at.stage * (Sh::kTile >> 4));
        wgmmaCommit();
      };
      auto softmaxAt = [&](int tile, Place at) {
        if constexpr (M == Masks::kRows) {
          addMaskTile<T>(s, sharedAddress(ringMask + at.stage * Sh::kMask + group * Sh::kMaskGroup), p.maskScale,
                         warp % 4, lane);
          __syncwarp();
        }
        if constexpr (M == Masks::kKeys) keyMasks[at.stage].add(s, lane);
        releaseK(at.stage);
        if (tile * BN + BN > clear) hideBeyond<BN>(s, tile * BN, lane, end0, end1);
        moved = softmaxTile<BN>(s, r, p.scale, slack);
        // Never true. Without this branch the compiler moves the wait for the tensor cores before the exponentials.
        if (__any_sync(~0u, r.sum[0] < 0.f || r.sum[1] < 0.f)) asm volatile("nanosleep.u32 0;");
      };
      auto multiply = [&](Place at, bool add) {
        barrierWait(&bars.fullV[at.stage], at.parity);
        wgmmaFence();
        products<T, Panels, BN>(o, w, firstV + at.stage * (Sh::kTile >> 4), add);
        wgmmaCommit();
      };

      barrierWait(&bars.fullQ[qb], (round / QBuffers) & 1);
      recordTimestamp(threadIdx.x == 0, Stage::kFirstData);
      const auto rescale = [&] {
#pragma unroll
        for (int j = 0; j < Panels * 8; ++j) {
          o[4 * j] *= r.shrink[0], o[4 * j + 1] *= r.shrink[0];
          o[4 * j + 2] *= r.shrink[1], o[4 * j + 3] *= r.shrink[1];
        }
      };
      int tile = part;
      if (tile < mine) {
        Place at = placeOf(tile);
        awaitTurn();
        score(at);
        passTurn();
        wgmmaWait<0>();
        softmaxAt(tile, at);
        pack<T, BN>(s, w);
        bool add = false;
        for (int next = tile + Split; next < mine; tile = next, next += Split) {
          const Place then = nextOf(at);
          awaitTurn();
          score(then);
          multiply(at, add);
          passTurn();
          add = true;
          wgmmaWait<1>();
          softmaxAt(next, then);
          wgmmaWait<0>();
          release(&bars.emptyV[at.stage]);
          at = then;
          if (moved) rescale();
          pack<T, BN>(s, w);
        }
        release(&bars.emptyQ[qb]);
        multiply(at, add);
        wgmmaWait<0>();
        release(&bars.emptyV[at.stage]);
        tile += Split;
      } else {
        release(&bars.emptyQ[qb]);
#pragma unroll
        for (int j = 0; j < Panels * 32; ++j) o[j] = 0.f;
      }
      for (; tile < tiles; tile += Split) {  // tiles that only the lower rows need
        const int i = base + tile;
        barrierWait(&bars.fullK[i % Stages], (i / Stages) & 1);
        releaseK(i % Stages);
        barrierWait(&bars.fullV[i % Stages], (i / Stages) & 1);
        release(&bars.emptyV[i % Stages]);
      }
      recordTimestamp(threadIdx.x == 0, Stage::kMultiplied);
      base += tiles;

      if constexpr (Split > 1) {
        // The ring of K is free: with Split a block has only one item.
        mergeParts<Sh>(o, r, reinterpret_cast<float*>(ringK), group, part, p.scale);
        if (part > 0) continue;
      }

      recordTimestamp(threadIdx.x == 0, Stage::kGathered);
      T* out = static_cast<T*>(p.out) + item.batch * p.os[0] + item.head * p.os[1];
      writeRows<T, Sh>(o, r, out, row, lane, p);
    }
    writeTimestamps(threadIdx.x == 0, TimedKernel::kAttention, Split * 1000 + BN);
  }
#endif
}

template <class T, int Panels, int Groups, int Split, int BN, int Stages, int QBuffers, int Blocks, Masks M>
cudaError_t run(const AttentionArgs& a, cudaStream_t stream) {
  using Sh = AttentionShape<Panels, Groups, Split, BN, Stages, QBuffers, M>;
  CUtensorMap mapQ, mapK, mapV, mapMask;
  if (!makeHeadMap(mapQ, a.q, a.dtype, a.batch, a.heads, a.queries, a.dim, a.qs, 64) ||
      !makeHeadMap(mapK, a.k, a.dtype, a.batch, a.kvHeads, a.keys, a.dim, a.ks, BN) ||
      !makeHeadMap(mapV, a.v, a.dtype, a.batch, a.kvHeads, a.keys, a.dim, a.vs, BN)) {
    return cudaErrorNotSupported;
  }
  mapMask = mapQ;
  if (M == Masks::kRows) {
    const MaskKind kind = a.dtype == Dtype::kHalf ? MaskKind::kHalf : MaskKind::kBfloat16;
    const int64_t strides[3] = {a.mask.stride[0], a.mask.stride[1], a.mask.stride[2]};
    if (a.mask.kind != kind || a.mask.stride[3] != 1 || strides[2] < a.keys ||
        !makeHeadMap(mapMask, a.mask.data, a.dtype, strides[0] ? a.batch : 1, strides[1] ? a.heads : 1, a.queries,
                     a.keys, strides, 64))
      return cudaErrorNotSupported;
  }
  auto kernel = attendHopper<T, Panels, Groups, Split, BN, Stages, QBuffers, Blocks, M>;
  static std::atomic<uint64_t> configured{0};
  if (const cudaError_t failed = allowShared(kernel, Sh::kSmem, configured); failed != cudaSuccess) return failed;
  static const int resident = [&] {
    int device = 0, processors = 0, blocks = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, Sh::kThreads, Sh::kSmem) != cudaSuccess) {
      return 0;
    }
    return processors * blocks;
  }();
  if (resident == 0) return cudaErrorNotSupported;
  const int queryTiles = (a.queries + Sh::kRows - 1) / Sh::kRows;
  const int64_t items = int64_t{queryTiles} * a.heads * a.batch;
  if (items > INT32_MAX - 65536) return cudaErrorNotSupported;
  const int grid = static_cast<int>(Split > 1 || items < resident ? items : resident);
  const int pairStep = grid / queryTiles;
  AttentionParams p{a.out,
                    {a.os[0], a.os[1], a.os[2]},
                    a.mask,
                    a.heads,
                    a.heads / a.kvHeads,
                    a.queries,
                    a.keys,
                    a.dim,
                    queryTiles,
                    static_cast<int>(items),
                    grid % queryTiles,
                    pairStep % a.heads,
                    pairStep / a.heads,
                    a.scale * kLog2e,
                    1.f / a.scale,
                    a.causal};
  return launch(kernel, static_cast<unsigned>(grid), Sh::kThreads, Sh::kSmem, stream, a.pdl, mapQ, mapK, mapV, mapMask,
                p);
}

template <int Panels, int Groups, int Split, int BN, int Stages, int QBuffers, int Blocks, Masks M>
cudaError_t byType(const AttentionArgs& a, cudaStream_t stream) {
  return a.dtype == Dtype::kHalf
             ? run<__half, Panels, Groups, Split, BN, Stages, QBuffers, Blocks, M>(a, stream)
             : run<__nv_bfloat16, Panels, Groups, Split, BN, Stages, QBuffers, Blocks, M>(a, stream);
}

bool maskedByRow(const AttentionArgs& a) { return a.mask.kind != MaskKind::kNone && a.mask.stride[2] != 0; }

// A mask by query and key takes shared memory for its tiles: RowStages and RowBlocks, and 64 keys per tile, apply then.
template <int Panels, int Groups, int Split, int BN, int Stages, int QBuffers, int Blocks, int RowStages, int RowBlocks>
cudaError_t byMask(const AttentionArgs& a, cudaStream_t stream) {
  if (a.mask.kind == MaskKind::kNone)
    return byType<Panels, Groups, Split, BN, Stages, QBuffers, Blocks, Masks::kNone>(a, stream);
  if (!maskedByRow(a)) return byType<Panels, Groups, Split, BN, Stages, QBuffers, Blocks, Masks::kKeys>(a, stream);
  return byType<Panels, Groups, Split, 64, RowStages, QBuffers, RowBlocks, Masks::kRows>(a, stream);
}

// kNarrow: blocks of 64 queries, several per SM (128 queries and one block per SM above head size 64).
// kWide: blocks of 256 queries, which share K and V. kShared: 64 queries whose keys two warpgroups share, for few
// queries.
enum Variant { kNarrow, kWide, kShared, kVariants };

}  // namespace

int attentionHopperVariants() { return kVariants; }

// The thresholds come from measurements on an H200 (docs/measurements/bert-encoder.md).
int attentionHopperChoice(const AttentionArgs& a) {
  static const int processors = [] {
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count > 0 ? count : 1;
  }();
  const int64_t pairs = int64_t{a.batch} * a.heads, tiles = (a.queries + 63) / 64 * pairs;
  if (a.queries <= 32 || a.keys <= 64) return tiles > processors ? kNarrow : -1;
  if (a.dim > 64) return tiles >= 64 ? kNarrow : -1;
  if (tiles <= processors) return a.dim > 32 || a.keys > 256 ? kShared : -1;
  // Waves of blocks times the relative time of a wave: three blocks of 64 queries per SM (two with a mask by row), or
  // one of 256.
  const auto waves = [&](int64_t items, int64_t atOnce) { return (items + atOnce - 1) / atOnce; };
  const int64_t narrow = maskedByRow(a) ? 90 * waves(tiles, processors * 2) : 106 * waves(tiles, processors * 3),
                wide = 112 * waves((a.queries + 255) / 256 * pairs, processors);
  return wide < narrow ? kWide : kNarrow;
}

cudaError_t launchAttentionHopper(const AttentionArgs& a, int variant, cudaStream_t stream) {
  const auto bad = [](const void* p, const int64_t(&s)[3]) {
    return reinterpret_cast<uintptr_t>(p) % 16 || s[0] % 8 || s[1] % 8 || s[2] % 8;
  };
  if (a.dtype == Dtype::kFloat || a.dim % 8 || a.dim > 128 || a.dimV != a.dim || a.heads % a.kvHeads ||
      bad(a.out, a.os))
    return cudaErrorNotSupported;
  if (!(a.scale > 0.f && a.scale < 1e30f)) return cudaErrorNotSupported;
  // One sample that serves all has no stride for a tensor map.
  if (a.batch > 1 && !(a.qs[0] && a.ks[0] && a.vs[0])) return cudaErrorNotSupported;
  if (a.batch == 0 || a.heads == 0 || a.queries == 0 || a.keys == 0) return cudaErrorNotSupported;
  if (a.dim > 64) return variant == kNarrow ? byMask<2, 2, 1, 64, 3, 2, 1, 3, 1>(a, stream) : cudaErrorNotSupported;
  switch (variant) {
    case kNarrow:
      return byMask<1, 1, 1, 64, 3, 2, 3, 3, 2>(a, stream);
    case kWide:
      return byMask<1, 4, 1, 64, 5, 2, 1, 3, 1>(a, stream);
    case kShared:
      // Wider tiles where a warpgroup has several of them: it waits for scores less often.
      return a.keys > 128 ? byMask<1, 2, 2, 128, 4, 1, 1, 4, 1>(a, stream)
                          : byMask<1, 2, 2, 64, 4, 1, 1, 4, 1>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
