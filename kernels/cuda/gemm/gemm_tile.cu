// out = residual + act(x w^T + bias) for few rows: one output tile per block, K split over the blocks of a cluster.
//
// Shapes: x [m,k], w [n,k], out [m,n], fp16 or bf16, accumulated in fp32; k, n and the row strides are multiples of 8.
//
// - Two producer warps, one for x and one for w, fill a ring of 64-wide slices of K by TMA. One or two consumer
//   warpgroups multiply (wgmma m64nBNk16), each on 64 rows.
// - A cluster is CM x CN neighbouring tiles times Split ranges of K. The blocks of a row of tiles need the same slices
//   of x, those of a column the same slices of w: each block loads a share and multicasts it. The tuner finds out
//   which tile, cluster and split pay.
// - Split-K: each block of a range of K finishes BN / Split columns. The others send it their partial sums (st.async,
//   counted by an mbarrier), and it adds them in fp32 in rank order, so that results repeat bit for bit.
// - Results leave in the accumulator's layout, through stmatrix and TMA. With an activation they go through shared
//   memory in a loop: unrolled over the accumulator, the activation's code would not fit the instruction caches.
// - Under PDL the first slices of the weights are requested before the wait for the previous kernel. With few rows the
//   weights are nearly all the bytes that are read.
//
// Sources: PTX ISA (wgmma, cp.async.bulk.tensor, griddepcontrol); split-K is the classic technique.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gemm/tensor_map.h"
#include "kernels/cuda/hopper.cuh"

namespace graft::cuda {
namespace {

constexpr int kBk = 64;
// Bytes of the weights that are prefetched into the L2 while the previous kernel still runs. With all of 34 MB,
// requests for x wait behind those for weights (15 us instead of 12); with all of 134 MB the first are gone before they
// are used (66 us instead of 42).
constexpr double kMostAhead = 8e6;

template <int BM, int BN, int CM, int CN, int Split, int Stages, int Deep>
struct TileShape {
  static constexpr int kCluster = CM * CN * Split;
  static constexpr int kColumns = BN / Split;                                         // finished by one block
  static constexpr int kBox = kColumns % 32 == 0 ? 32 : kColumns % 16 == 0 ? 16 : 8;  // columns of a box of the output
  // A stage holds Deep slices of x, then Deep slices of w.
  static constexpr int kXBytes = BM * kBk * 2 * Deep, kStageBytes = (BM + BN) * kBk * 2 * Deep;
  static constexpr int kRing = Stages * kStageBytes;
  // The partial sums that the other ranges of K send.
  static constexpr int kPartBytes = BM * kColumns * 4, kPartsBytes = (Split - 1) * kPartBytes;
  // Where shared memory suffices, the residual is loaded into a tile of its own while slices are multiplied, and the
  // result overwrites it. Otherwise the result overwrites the ring. That leaves space for a second block on the SM.
  static constexpr int kTileBytes = BM * kColumns * 2, kMost = 224 * 1024;
  static constexpr int kTile = kRing + kPartsBytes;
  static constexpr bool kTileFits = kTile + kTileBytes <= kMost;
  // With an activation the sums overwrite the ring.
  static constexpr int kSumStride = kColumns + 8;  // floats; 8 mod 32 keeps the writes free of bank conflicts
  static_assert(BM * kSumStride * 4 <= kRing && kTile <= kMost);
  static_assert(BN % (8 * Split) == 0 && BM / CN % 8 == 0 && BN / CM % 8 == 0 && kCluster <= 8,
                "shares are whole swizzle atoms");
};

struct TileParams {
  const void* bias;
  const void* residual;
  void* out;
  int m, n, k, clustersM, clustersN;
  int64_t ldr, ldo;
  Activation activation;
  bool constantWeights;
  int ahead;  // with constantWeights: slices of a range of K that are prefetched into the L2
};

template <class T, int BM, int BN, int CM, int CN, int Split, int Stages, int Deep, bool RegisterGelu>
__global__ void __launch_bounds__(BM * 2 + 64)
    gemmTile(const __grid_constant__ CUtensorMap mapX, const __grid_constant__ CUtensorMap mapW,
             const __grid_constant__ CUtensorMap mapResidual, const __grid_constant__ CUtensorMap mapOut,
             const TileParams p) {
#ifdef GRAFT_HOPPER
  using Shape = TileShape<BM, BN, CM, CN, Split, Stages, Deep>;
  constexpr int kCluster = Shape::kCluster, kColumns = Shape::kColumns, kBox = Shape::kBox;
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ __align__(8) uint64_t full[Stages], empty[Stages], gathered, residualLoaded;
  constexpr int kThreads = BM * 2;  // of the consumer warpgroups
  recordTimestamp(threadIdx.x == 0, Stage::kEntry);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  // In a cluster's ranks the row of tiles varies fastest, then the column, then the range of K.
  const int rank = kCluster > 1 ? static_cast<int>(clusterRank()) : 0;
  const int im = rank % CM, in = rank / CM % CN, range = rank / (CM * CN);
  const int cluster = blockIdx.x / kCluster;
  const int m0 = (cluster / p.clustersN * CM + im) * BM, n0 = (cluster % p.clustersN * CN + in) * BN;
  const int mine = n0 + range * kColumns;                    // the first column that this block finishes
  const int valid = max(min(BM, p.m - m0), 0);               // rows of the tile within the matrix
  const int slices = (p.k + kBk * Deep - 1) / (kBk * Deep);  // in units of a stage
  const int first = slices * range / Split, last = slices * (range + 1) / Split;

  if (threadIdx.x == 0) {
    tmaPrefetchMap(&mapW), tmaPrefetchMap(&mapX), tmaPrefetchMap(&mapOut);
    for (int s = 0; s < Stages; ++s) {
      barrierInit(&full[s], 1);
      barrierInit(&empty[s], BM / 16 * (CM + CN - 1));
    }
    barrierInit(&gathered, 1);
    barrierInit(&residualLoaded, 1);
    barrierInitFence();
    if (Split > 1) barrierExpect(&gathered, (Split - 1) * valid * kColumns * 4);
  }
  if constexpr (kCluster > 1) {
    clusterArriveRelaxed();  // no block may send before all barriers are initialised
    clusterWait();
  } else {
    __syncthreads();
  }
  pdlTrigger();

  if (warp >= BM / 16) {
    // Two producer warps, so that the requests for x do not queue behind those for the weights. That matters for blocks
    // that start late.
    const uint32_t elected = electLane(), ring = sharedAddress(smem);
    const uint32_t fulls = sharedAddress(full), empties = sharedAddress(empty);
    auto loadW = [&](int s, int slice) {
#pragma unroll
      for (int d = 0; d < Deep; ++d) {
        const uint32_t to = ring + s * Shape::kStageBytes + Shape::kXBytes + d * BN * kBk * 2;
        const int column = (slice * Deep + d) * kBk;
        if constexpr (CM > 1) {
          constexpr int kShare = BN / CM;
          const uint16_t blocks = static_cast<uint16_t>(((1 << CM) - 1) << (rank - im));
          tmaLoadMulticastElected(elected, to + im * kShare * kBk * 2, &mapW, fulls + s * 8, column, n0 + im * kShare,
                                  blocks);
        } else {
          tmaLoadElected(elected, to, &mapW, fulls + s * 8, column, n0);
        }
      }
    };
    auto loadX = [&](int s, int slice) {
#pragma unroll
      for (int d = 0; d < Deep; ++d) {
        const uint32_t to = ring + s * Shape::kStageBytes + d * BM * kBk * 2;
        const int column = (slice * Deep + d) * kBk;
        if constexpr (CN > 1) {
          constexpr int kShare = BM / CN;
          uint32_t blocks = 0;
#pragma unroll
          for (int c = 0; c < CN; ++c) blocks |= 1u << (im + CM * (c + CN * range));
          tmaLoadMulticastElected(elected, to + in * kShare * kBk * 2, &mapX, fulls + s * 8, column, m0 + in * kShare,
                                  static_cast<uint16_t>(blocks));
        } else {
          tmaLoadElected(elected, to, &mapX, fulls + s * 8, column, m0);
        }
      }
    };
    const int count = last - first, early = min(count, Stages);
    if (warp == BM / 16) {
      if (!p.constantWeights) pdlWait();
#pragma unroll 1
      for (int i = 0; i < early; ++i) {
        barrierExpectElected(elected, fulls + i * 8, Shape::kStageBytes);
        loadW(i, first + i);
      }
      // More weights are prefetched into the L2 while the previous kernel still runs. Blocks with the same weights
      // prefetch different slices, because L2 traffic, not arithmetic, limits most products.
      if (p.constantWeights) {
#pragma unroll 1
        for (int i = early + cluster / p.clustersN; i < min(count, p.ahead); i += p.clustersM) {
#pragma unroll
          for (int d = 0; d < Deep; ++d)
            tmaPrefetchElected(elected, &mapW, ((first + i) * Deep + d) * kBk, n0 + (CM > 1 ? im * (BN / CM) : 0));
        }
      }
    } else {
      recordTimestamp(elected, Stage::kBeforeWait);
      pdlWait();
      recordTimestamp(elected, Stage::kAfterWait);
#pragma unroll 1
      for (int i = 0; i < early; ++i) loadX(i, first + i);
      if (Shape::kTileFits && p.residual) {
        const uint32_t bar = sharedAddress(&residualLoaded);
        barrierExpectElected(elected, bar, Shape::kTileBytes);
#pragma unroll 1
        for (int box = 0; box < kColumns / kBox; ++box)
          tmaLoadElected(elected, ring + Shape::kTile + box * BM * kBox * 2, &mapResidual, bar, mine + box * kBox, m0);
      }
    }
    // Not unrolled, like all loops here: instruction cache misses cost more than branches. A stage's barrier may count
    // bytes of x before it is told how many to expect, because only that call can end its phase.
    int s = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int i = Stages; i < count; ++i) {
      barrierWaitAt(empties + s * 8, parity);
      if (warp == BM / 16) {
        barrierExpectElected(elected, fulls + s * 8, Shape::kStageBytes);
        loadW(s, first + i);
      } else {
        loadX(s, first + i);
      }
      if (++s == Stages) s = 0, parity ^= 1;
    }
  } else {
    const int group = warp / 4;
    // A freed stage is reported to the empty barriers of all blocks that write into it; this lane reports to one block.
    uint32_t listener = 0;  // its rank in the cluster
    if (lane < CN) {
      listener = im + CM * (lane + CN * range);
    } else if (lane < CN + CM - 1) {
      const int other = lane - CN;
      listener = rank - im + (other < im ? other : other + 1);
    }
    auto release = [&](int s) {
      if constexpr (CM * CN > 1) {
        if (lane < CN + CM - 1) barrierArriveAt(&empty[s], listener);
      } else {
        if (lane == 0) barrierArrive(&empty[s]);
      }
    };
    // The bias in the accumulator's layout. It arrives before x.
    if (!p.constantWeights) pdlWait();
    uint32_t bias[kColumns / 8];
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int n = mine + j * 8 + lane % 4 * 2;
      bias[j] = p.bias && n < p.n ? *reinterpret_cast<const uint32_t*>(static_cast<const T*>(p.bias) + n) : 0u;
    }
    float d[BN / 2];
#pragma unroll
    for (int i = 0; i < BN / 2; ++i) d[i] = 0.f;
    const uint32_t fulls = sharedAddress(full);
    const uint64_t a0 = tileDescriptor(sharedAddress(smem) + group * 64 * kBk * 2);
    const uint64_t b0 = tileDescriptor(sharedAddress(smem) + Shape::kXBytes);
    int s = 0, before = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int i = 0; first + i < last; ++i) {
      barrierWaitAt(fulls + s * 8, parity);
      recordTimestamp(threadIdx.x == 0 && i == 0, Stage::kFirstData);
      const uint64_t a = a0 + s * (Shape::kStageBytes / 16), b = b0 + s * (Shape::kStageBytes / 16);
      wgmmaFence();
#pragma unroll
      for (int kk = 0; kk < 4 * Deep; ++kk) {
        Wgmma<T, BN>::run(d, a + kk / 4 * (BM * kBk * 2 / 16) + kk % 4 * 2,
                          b + kk / 4 * (BN * kBk * 2 / 16) + kk % 4 * 2, 1);
      }
      wgmmaCommit();
      // The products of one stage stay in flight; those before have finished, and their stage may be refilled.
      wgmmaWait<1>();
      if (i > 0) release(before);
      before = s;
      if (++s == Stages) s = 0, parity ^= 1;
    }
    wgmmaWait<0>();
    recordTimestamp(threadIdx.x == 0, Stage::kMultiplied);
    if (p.constantWeights) pdlWait();

    // This block's columns plus the partial sums of the other ranges. Threads of the same number hold the same
    // elements.
    const int row = warp * 16 + lane / 4;
    float v[kColumns / 2];
    if constexpr (Split == 1) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) v[i] = d[i];
    } else {
#pragma unroll
      for (int owner = 0; owner < Split; ++owner) {
        const float* part = d + owner * kColumns / 2;
        if (owner == range) {
#pragma unroll
          for (int i = 0; i < kColumns / 2; ++i) v[i] = part[i];
        } else {
          const int block = im + CM * (in + CN * owner), place = range < owner ? range : range - 1;
          const uint32_t to =
              remoteAddress(sharedAddress(smem + Shape::kRing + place * Shape::kPartBytes + threadIdx.x * 8), block);
          const uint32_t bar = remoteAddress(sharedAddress(&gathered), block);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if (row + half * 8 >= valid) break;
#pragma unroll
            for (int i = half; i < kColumns / 4; i += 2)
              storeAsync(to + i * kThreads * 8, part[2 * i], part[2 * i + 1], bar);
          }
        }
      }
      barrierWait(&gathered, 0);
#pragma unroll
      for (int part = 0; part < Split - 1; ++part) {
        const float2* from = reinterpret_cast<const float2*>(smem + Shape::kRing + part * Shape::kPartBytes);
#pragma unroll
        for (int i = 0; i < kColumns / 4; ++i) {
          const float2 f = from[i * kThreads + threadIdx.x];
          v[2 * i] += f.x, v[2 * i + 1] += f.y;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const float2 f = unpack2<T>(bias[j]);
      v[4 * j] += f.x, v[4 * j + 1] += f.y, v[4 * j + 2] += f.x, v[4 * j + 3] += f.y;
    }
    recordTimestamp(threadIdx.x == 0, Stage::kGathered);
    // Waits until the other warpgroup has read all of the ring too.
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
    if (Shape::kTileFits && p.residual) barrierWait(&residualLoaded, 0);
    const bool fromRegisters = p.activation == Activation::kNone || RegisterGelu;
    if (fromRegisters && (Shape::kTileFits || !p.residual)) {
      uint8_t* tile = smem + (p.residual ? Shape::kTile : 0);
      const BoxPlace<BM, kBox> place(sharedAddress(tile), warp, lane);
      constexpr int kAtOnce = kBox == 8 ? 1 : 2, kSteps = kColumns / 8 / kAtOnce;  // in groups of eight columns
      if (RegisterGelu) {
#pragma unroll
        for (int i = 0; i < kColumns / 2; i += 2) geluPair(v[i], v[i + 1]);
      }
      // One branch for all steps: the compiler cannot reorder loads across branches.
      if (p.residual) {
        uint32_t more[kSteps][4];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if constexpr (kAtOnce == 2) {
            loadMatrix4(place(step), more[step]);
          } else {
            loadMatrix2(place(step), more[step]);
          }
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
          for (int i = 0; i < 2 * kAtOnce; ++i) {
            const float2 f = unpack2<T>(more[step][i]);
            v[4 * kAtOnce * step + 2 * i] += f.x, v[4 * kAtOnce * step + 2 * i + 1] += f.y;
          }
        }
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const float* from = v + 4 * kAtOnce * step;
        if constexpr (kAtOnce == 2) {
          storeMatrix4(place(step), pack2<T>(from[0], from[1]), pack2<T>(from[2], from[3]), pack2<T>(from[4], from[5]),
                       pack2<T>(from[6], from[7]));
        } else {
          storeMatrix2(place(step), pack2<T>(from[0], from[1]), pack2<T>(from[2], from[3]));
        }
      }
      recordTimestamp(threadIdx.x == 0, Stage::kLeaving);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0 && warp * 16 < valid) {
        for (int box = 0; box < kColumns / kBox; ++box) {
          if (mine + box * kBox < p.n)
            tmaStore(&mapOut, tile + (box * BM + warp * 16) * kBox * 2, mine + box * kBox, m0 + warp * 16);
        }
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
      }
    } else {
      float* sums = reinterpret_cast<float*>(smem);
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        float* to = sums + row * Shape::kSumStride + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(v[4 * j], v[4 * j + 1]);
        *reinterpret_cast<float2*>(to + 8 * Shape::kSumStride) = make_float2(v[4 * j + 2], v[4 * j + 3]);
      }
      asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
      recordTimestamp(threadIdx.x == 0, Stage::kLeaving);
      // Each thread works on two groups of eight columns: one dependent chain alone would stall most of the time.
      constexpr int kChunks = kColumns / 8, kAtOnce = 2;
#pragma unroll 1
      for (int c0 = threadIdx.x; c0 < valid * kChunks; c0 += kThreads * kAtOnce) {
        float y[8 * kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const int c = min(c0 + u * kThreads, BM * kChunks - 1), r = c / kChunks, column = c % kChunks * 8;
          const float4* from = reinterpret_cast<const float4*>(sums + r * Shape::kSumStride + column);
          const float4 lo = from[0], hi = from[1];
          const float part[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
          for (int i = 0; i < 8; ++i) y[8 * u + i] = part[i];
        }
        activate<T, 8 * kAtOnce>(y, p.activation);
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const int c = c0 + u * kThreads, r = c / kChunks, column = c % kChunks * 8;
          if (c >= valid * kChunks || mine + column >= p.n) continue;
          float(&part)[8] = reinterpret_cast<float(&)[8]>(y[8 * u]);
          if (p.residual) {
            const auto more = *reinterpret_cast<const Vec<T, 8>*>(
                Shape::kTileFits ? smem + Shape::kTile + boxOffset<BM, kBox>(r, column / 8)
                                 : reinterpret_cast<const uint8_t*>(static_cast<const T*>(p.residual) +
                                                                    int64_t{m0 + r} * p.ldr + mine + column));
#pragma unroll
            for (int i = 0; i < 8; ++i) part[i] += toFloat(more.v[i]);
          }
          storeVec<T, 8>(static_cast<T*>(p.out) + int64_t{m0 + r} * p.ldo + mine + column, part);
        }
      }
    }
  }
  writeTimestamps(threadIdx.x == 0, TimedKernel::kTile, Split * 1000000 + BM * 1000 + BN);
  if constexpr (CM * CN > 1) {
    // A block must not exit while others may still arrive at its barriers.
    __syncwarp();
    clusterArriveRelaxed();
    clusterWait();
  }
#endif
}

template <class T, int BM, int BN, int CM, int CN, int Split, int Stages, int Deep, bool RegisterGelu>
cudaError_t run(const GemmArgs& a, cudaStream_t stream) {
  using Shape = TileShape<BM, BN, CM, CN, Split, Stages, Deep>;
  if ((a.k + kBk * Deep - 1) / (kBk * Deep) < Split) return cudaErrorNotSupported;
  if (RegisterGelu && a.activation != Activation::kGelu) return cudaErrorNotSupported;
  CUtensorMap mapX, mapW, mapResidual, mapOut;
  if (!makeTensorMap(mapX, a.x, a.dtype, a.m, a.k, a.ldx, BM / CN) ||
      !makeTensorMap(mapW, a.w, a.dtype, a.n, a.k, a.ldw, BN / CM) ||
      !makeBoxMap(mapOut, a.out, a.dtype, a.m, a.n, a.ldo, 16, Shape::kBox)) {
    return cudaErrorNotSupported;
  }
  mapResidual = mapOut;
  const bool fetch = Shape::kTileFits && a.residual;
  if (fetch && !makeBoxMap(mapResidual, a.residual, a.dtype, a.m, a.n, a.ldr, BM, Shape::kBox))
    return cudaErrorNotSupported;
  auto kernel = gemmTile<T, BM, BN, CM, CN, Split, Stages, Deep, RegisterGelu>;
  static std::atomic<uint64_t> configured{0};
  if (const cudaError_t failed =
          allowShared(kernel, Shape::kTile + (Shape::kTileFits ? Shape::kTileBytes : 0), configured);
      failed != cudaSuccess)
    return failed;
  const auto clusters = [](int64_t size, int tile, int tiles) {
    return (size + int64_t{tile} * tiles - 1) / (tile * tiles);
  };
  const int64_t clustersM = clusters(a.m, BM, CM), clustersN = clusters(a.n, BN, CN);
  const int64_t blocks = clustersM * clustersN * Shape::kCluster;
  if (blocks > INT32_MAX) return cudaErrorNotSupported;
  const int slices = static_cast<int>((a.k + kBk * Deep - 1) / (kBk * Deep));
  const double shareAhead = kMostAhead / (2.0 * static_cast<double>(a.n) * static_cast<double>(a.k));
  const int ahead = shareAhead >= 1 ? slices : static_cast<int>(shareAhead * slices / Split);
  TileParams p{a.bias,
               a.residual,
               a.out,
               static_cast<int>(a.m),
               static_cast<int>(a.n),
               static_cast<int>(a.k),
               static_cast<int>(clustersM),
               static_cast<int>(clustersN),
               a.ldr,
               a.ldo,
               a.activation,
               a.constantWeights && a.pdl,
               ahead};
  return launchCluster(kernel, static_cast<unsigned>(blocks), BM * 2 + 64, Shape::kCluster,
                       Shape::kTile + (fetch ? Shape::kTileBytes : 0), stream, a.pdl, mapX, mapW, mapResidual, mapOut,
                       p);
}

// The variants that the tuner may choose from, as TileVariant in launchers.h describes them: rows and columns of a
// tile, rows and columns of a cluster, split of K, stages, slices per stage, and whether GELU is applied in registers.
#define GRAFT_TILE_VARIANTS(V)      \
  V(64, 32, 1, 1, 1, 6, 2, false)   \
  V(64, 32, 1, 1, 2, 6, 2, false)   \
  V(64, 32, 1, 1, 4, 6, 1, false)   \
  V(64, 48, 1, 1, 6, 5, 1, false)   \
  V(64, 48, 1, 1, 1, 6, 2, false)   \
  V(64, 48, 2, 1, 1, 6, 2, false)   \
  V(64, 64, 1, 1, 1, 12, 1, false)  \
  V(64, 64, 1, 1, 1, 6, 2, false)   \
  V(64, 64, 1, 1, 1, 6, 1, false)   \
  V(64, 64, 2, 1, 1, 6, 2, false)   \
  V(64, 64, 4, 2, 1, 6, 2, false)   \
  V(64, 64, 4, 1, 2, 5, 2, false)   \
  V(64, 64, 2, 2, 2, 5, 2, false)   \
  V(64, 64, 1, 1, 2, 10, 1, false)  \
  V(64, 64, 1, 1, 2, 5, 2, false)   \
  V(64, 64, 1, 1, 4, 10, 1, false)  \
  V(64, 64, 1, 1, 4, 5, 1, false)   \
  V(64, 64, 1, 1, 8, 5, 1, false)   \
  V(64, 96, 1, 1, 1, 10, 1, false)  \
  V(64, 96, 1, 1, 1, 5, 1, false)   \
  V(64, 96, 2, 1, 1, 10, 1, false)  \
  V(64, 96, 2, 1, 1, 5, 1, false)   \
  V(64, 96, 2, 2, 1, 5, 1, false)   \
  V(64, 96, 4, 2, 1, 10, 1, false)  \
  V(64, 96, 4, 1, 2, 8, 1, false)   \
  V(64, 96, 1, 1, 2, 8, 1, false)   \
  V(64, 96, 1, 1, 6, 5, 1, false)   \
  V(64, 128, 1, 1, 1, 8, 1, false)  \
  V(64, 128, 4, 1, 1, 8, 1, false)  \
  V(64, 128, 1, 1, 2, 7, 1, false)  \
  V(64, 144, 2, 1, 1, 7, 1, false)  \
  V(128, 64, 1, 1, 1, 8, 1, false)  \
  V(128, 64, 1, 1, 1, 4, 1, false)  \
  V(128, 64, 1, 1, 2, 7, 1, false)  \
  V(128, 128, 1, 1, 1, 6, 1, false) \
  V(128, 128, 1, 1, 2, 5, 1, false) \
  V(128, 64, 2, 2, 1, 8, 1, false)  \
  V(128, 64, 2, 2, 2, 7, 1, false)  \
  V(128, 64, 2, 1, 2, 7, 1, false)  \
  V(128, 96, 1, 1, 1, 3, 1, false)  \
  V(128, 96, 1, 1, 1, 7, 1, false)  \
  V(128, 96, 2, 1, 1, 7, 1, false)  \
  V(128, 96, 2, 1, 1, 4, 1, false)  \
  V(128, 96, 4, 2, 1, 7, 1, false)  \
  V(128, 96, 4, 1, 2, 6, 1, false)  \
  V(128, 96, 2, 1, 2, 6, 1, false)  \
  V(128, 96, 2, 1, 3, 6, 1, false)  \
  V(128, 128, 2, 1, 1, 6, 1, false) \
  V(128, 128, 2, 1, 2, 5, 1, false) \
  V(128, 144, 1, 1, 1, 6, 1, false) \
  V(128, 144, 2, 1, 1, 6, 1, false) \
  V(128, 192, 1, 1, 1, 5, 1, false) \
  V(128, 192, 2, 1, 1, 5, 1, false) \
  V(128, 192, 2, 1, 1, 4, 1, false) \
  V(128, 192, 2, 1, 1, 5, 1, true)  \
  V(128, 192, 2, 1, 2, 3, 1, false) \
  V(64, 64, 2, 1, 1, 6, 2, true)    \
  V(128, 96, 2, 1, 1, 4, 1, true)   \
  V(128, 96, 2, 1, 1, 7, 1, true)

}  // namespace

#define GRAFT_V(bm, bn, cm, cn, split, stages, deep, registerGelu) \
  TileVariant{bm, bn, cm, cn, split, stages, deep, registerGelu},
static const TileVariant kVariants[] = {GRAFT_TILE_VARIANTS(GRAFT_V)};
#undef GRAFT_V

int tileVariantCount() { return static_cast<int>(sizeof(kVariants) / sizeof(kVariants[0])); }
TileVariant tileVariant(int i) { return kVariants[i]; }

cudaError_t launchGemmTile(const GemmArgs& a, int variant, cudaStream_t stream) {
  if (a.dtype == Dtype::kFloat || a.n % 8 || a.k % 8 || a.ldo % 8 || (a.residual && a.ldr % 8))
    return cudaErrorNotSupported;
  if (!aligned(a.out, 16) || !aligned(a.residual, 16) || !aligned(a.bias, 4)) return cudaErrorNotSupported;
  int i = 0;
#define GRAFT_V(bm, bn, cm, cn, split, stages, deep, registerGelu)                                                     \
  if (variant == i++) {                                                                                                \
    return a.dtype == Dtype::kHalf ? run<__half, bm, bn, cm, cn, split, stages, deep, registerGelu>(a, stream)         \
                                   : run<__nv_bfloat16, bm, bn, cm, cn, split, stages, deep, registerGelu>(a, stream); \
  }
  GRAFT_TILE_VARIANTS(GRAFT_V)
#undef GRAFT_V
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
