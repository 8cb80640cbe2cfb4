// out = residual + act(x w^T + bias) for few rows: one output tile per block, K split over blocks of a cluster.
//
// Shapes: x [m,k], w [n,k], out [m,n], fp16 or bf16 with fp32 accumulation; k, n and the row strides multiples of 8.
// A producer warp fills a ring of 64-wide K slices by TMA, one or two warpgroups multiply (wgmma m64nBNk16), each on 64
// rows. A cluster is CM x CN neighbouring tiles times Split ranges of K. The blocks of a row of tiles need the same
// slice of x, those of a column the same slice of w: each loads its share and multicasts it, for at these sizes it is
// the L2's bandwidth to the SMs that is short, not memory's. Each block of a range of K sends its partial sums to the
// block that finishes those rows (st.async, counted by a barrier there), which adds them in fp32 in rank order, so
// results repeat bit for bit. Under PDL the weights' first slices are requested before the wait for the previous
// kernel: at few rows the weights are nearly all the bytes there are. Sources: PTX ISA (wgmma, cp.async.bulk.tensor,
// griddepcontrol); the split is classic split-K.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tensor_map.h"

namespace graft::cuda {
namespace {

constexpr int kBk = 64;

template <int BM, int BN, int CM, int CN, int Split, int Stages, int Deep>
struct TileShape {
  static constexpr int kCluster = CM * CN * Split;
  // A stage holds Deep slices: x's first, then w's.
  static constexpr int kXBytes = BM * kBk * 2 * Deep, kStageBytes = (BM + BN) * kBk * 2 * Deep;
  static constexpr int kAccStride = BN + 8;  // floats; 8 mod 32 keeps the accumulator's writes free of bank conflicts
  static constexpr int kRows = (BM + Split - 1) / Split;  // that a block finishes, at most
  // Partial sums arrive while slices are still being multiplied, so they have a place of their own; a lone block reuses
  // the ring.
  static constexpr int kAccBytes = (Split * kRows * kAccStride * 4 + 127) / 128 * 128;
  static constexpr int kAccOffset = Split > 1 ? Stages* kStageBytes : 0;
  static constexpr int kSmem = Split > 1 || kAccBytes < Stages* kStageBytes
                                   ? Stages* kStageBytes + (Split > 1 ? kAccBytes : 0)
                                   : kAccBytes;
  // The residual, where there is room for it, is fetched while slices are multiplied.
  static constexpr int kResidualBytes = (kRows * BN * 2 + 127) / 128 * 128;
  static constexpr bool kResidualFits = kSmem + kResidualBytes <= 218 * 1024;
  static_assert(BM / CN % 8 == 0 && BN / CM % 8 == 0 && kCluster <= 8, "shares are whole swizzle atoms");
};

struct TileParams {
  const void* bias;
  const void* residual;
  void* out;
  int m, n, k, clustersN;
  int64_t ldr, ldo;
  Activation activation;
  bool constantWeights;
};

template <class T, int BM, int BN, int CM, int CN, int Split, int Stages, int Deep>
__global__ void __launch_bounds__(BM * 2 + 32)
    gemmTile(const __grid_constant__ CUtensorMap mapX, const __grid_constant__ CUtensorMap mapW,
             const __grid_constant__ CUtensorMap mapResidual, const TileParams p) {
#ifdef GRAFT_HOPPER
  using Shape = TileShape<BM, BN, CM, CN, Split, Stages, Deep>;
  constexpr int kCluster = Shape::kCluster;
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ __align__(8) uint64_t full[Stages], empty[Stages], summed, residualThere;
  __shared__ float biasTile[BN];
  constexpr int kThreads = BM * 2;  // of the consumers
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  // Rank in the cluster: row of tiles fastest, then column, then the range of K.
  const int rank = kCluster > 1 ? static_cast<int>(clusterRank()) : 0;
  const int im = rank % CM, in = rank / CM % CN, range = rank / (CM * CN);
  const int cluster = blockIdx.x / kCluster;
  const int m0 = (cluster / p.clustersN * CM + im) * BM, n0 = (cluster % p.clustersN * CN + in) * BN;
  const int valid = max(min(BM, p.m - m0), 0);               // rows of the tile; the blocks of a split share these
  const int slices = (p.k + kBk * Deep - 1) / (kBk * Deep);  // stages' worth
  const int first = slices * range / Split, last = slices * (range + 1) / Split;

  if (threadIdx.x == 0) {
    tmaPrefetchMap(&mapW), tmaPrefetchMap(&mapX);
    for (int s = 0; s < Stages; ++s) {
      barrierInit(&full[s], 1);
      barrierInit(&empty[s], BM / 16 * (CM + CN - 1));
    }
    barrierInit(&summed, 1);
    barrierInit(&residualThere, 1);
    barrierInitFence();
    if (Split > 1) barrierExpect(&summed, Split * (valid * (range + 1) / Split - valid * range / Split) * BN * 4);
  }
  if constexpr (kCluster > 1) {
    clusterArriveRelaxed();  // nobody sends before all barriers stand
    clusterWait();
  } else {
    __syncthreads();
  }
  pdlTrigger();

  float* acc = reinterpret_cast<float*>(smem + Shape::kAccOffset);
  if (warp == BM / 16) {
    const uint32_t by = electLane(), ring = sharedAddress(smem);
    const uint32_t fulls = sharedAddress(full), empties = sharedAddress(empty);
    auto loadW = [&](int s, int slice) {
#pragma unroll
      for (int d = 0; d < Deep; ++d) {
        const uint32_t to = ring + s * Shape::kStageBytes + Shape::kXBytes + d * BN * kBk * 2;
        const int column = (slice * Deep + d) * kBk;
        if constexpr (CM > 1) {
          constexpr int kShare = BN / CM;
          const uint16_t blocks = static_cast<uint16_t>(((1 << CM) - 1) << (rank - im));
          tmaLoadMulticastBy(by, to + im * kShare * kBk * 2, &mapW, fulls + s * 8, column, n0 + im * kShare, blocks);
        } else {
          tmaLoadBy(by, to, &mapW, fulls + s * 8, column, n0);
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
          tmaLoadMulticastBy(by, to + in * kShare * kBk * 2, &mapX, fulls + s * 8, column, m0 + in * kShare,
                             static_cast<uint16_t>(blocks));
        } else {
          tmaLoadBy(by, to, &mapX, fulls + s * 8, column, m0);
        }
      }
    };
    const int count = last - first, early = min(count, Stages);
    if (p.constantWeights) {
#pragma unroll 1
      for (int i = 0; i < early; ++i) {
        barrierExpectBy(by, fulls + i * 8, Shape::kStageBytes);
        loadW(i, first + i);
      }
      // The rest of them at least into the L2, while the kernel before still runs.
#pragma unroll 1
      for (int i = early; i < count; ++i) {
#pragma unroll
        for (int d = 0; d < Deep; ++d)
          tmaPrefetchBy(by, &mapW, ((first + i) * Deep + d) * kBk, n0 + (CM > 1 ? im * (BN / CM) : 0));
      }
    }
    pdlWait();
#pragma unroll 1
    for (int i = 0; i < early; ++i) {
      if (!p.constantWeights) {
        barrierExpectBy(by, fulls + i * 8, Shape::kStageBytes);
        loadW(i, first + i);
      }
      loadX(i, first + i);
    }
    if constexpr (Shape::kResidualFits) {
      if (p.residual) {
        const uint32_t bar = sharedAddress(&residualThere);
        barrierExpectBy(by, bar, Shape::kRows * BN * 2);
        tmaLoadBy(by, ring + Shape::kSmem, &mapResidual, bar, n0, m0 + valid * range / Split);
      }
    }
    // Rolled up, as all loops here: code that is not in the instruction caches costs more than branches do.
    int s = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int i = Stages; i < count; ++i) {
      barrierWaitAt(empties + s * 8, parity);
      barrierExpectBy(by, fulls + s * 8, Shape::kStageBytes);
      loadW(s, first + i);
      loadX(s, first + i);
      if (++s == Stages) s = 0, parity ^= 1;
    }
  } else {
    const int group = warp / 4;
    if (!p.constantWeights) pdlWait();
    for (int c = threadIdx.x; c < BN; c += kThreads) {
      const int n = n0 + c;
      biasTile[c] = p.bias && n < p.n ? toFloat(static_cast<const T*>(p.bias)[n]) : 0.f;
    }
    // Whose empty barriers hear of a freed stage: those of all that write into it.
    uint32_t listener = 0;
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
      const uint64_t a = a0 + s * (Shape::kStageBytes / 16), b = b0 + s * (Shape::kStageBytes / 16);
      wgmmaFence();
#pragma unroll
      for (int kk = 0; kk < 4 * Deep; ++kk) {
        Wgmma<T, BN>::run(d, a + kk / 4 * (BM * kBk * 2 / 16) + kk % 4 * 2,
                          b + kk / 4 * (BN * kBk * 2 / 16) + kk % 4 * 2, 1);
      }
      wgmmaCommit();
      // One stage's products stay in flight; those before are finished and their stage may be refilled.
      wgmmaWait<1>();
      if (i > 0) release(before);
      before = s;
      if (++s == Stages) s = 0, parity ^= 1;
    }
    wgmmaWait<0>();
    if (p.constantWeights) pdlWait();
    const int row = group * 64 + (warp % 4) * 16 + lane / 4;
    if constexpr (Split > 1) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = row + half * 8;
        if (r >= valid) break;
        int owner = 0;
#pragma unroll
        for (int s = 1; s < Split; ++s) owner += r >= valid * s / Split;
        const uint32_t block = im + CM * (in + CN * owner);
        const uint32_t to =
            remoteAddress(sharedAddress(acc + (range * Shape::kRows + r - valid * owner / Split) * Shape::kAccStride +
                                        (lane % 4) * 2),
                          block);
        const uint32_t bar = remoteAddress(sharedAddress(&summed), block);
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) storeAsync(to + j * 32, d[4 * j + 2 * half], d[4 * j + 2 * half + 1], bar);
      }
    } else {
      // All slices have landed and been read by this warpgroup; the other may still multiply.
      asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        float* to = acc + row * Shape::kAccStride + j * 8 + (lane % 4) * 2;
        *reinterpret_cast<float2*>(to) = make_float2(d[4 * j], d[4 * j + 1]);
        *reinterpret_cast<float2*>(to + 8 * Shape::kAccStride) = make_float2(d[4 * j + 2], d[4 * j + 3]);
      }
    }
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");  // the bias too is there
    if (Split > 1) barrierWait(&summed, 0);
  }

  if (warp < BM / 16) {
    // This block's share of the tile's rows, eight columns to a thread.
    constexpr int kChunks = BN / 8;
    const int rowBegin = valid * range / Split, rowEnd = valid * (range + 1) / Split;
    const T* residual = static_cast<const T*>(p.residual);
    const T* fetched = reinterpret_cast<const T*>(smem + Shape::kSmem);
    if (Shape::kResidualFits && residual) barrierWait(&residualThere, 0);
#pragma unroll 1
    for (int c = threadIdx.x; c < (rowEnd - rowBegin) * kChunks; c += kThreads) {
      const int r = c / kChunks, column = c % kChunks * 8;
      const int m = m0 + rowBegin + r, n = n0 + column;
      if (n >= p.n) continue;
      Vec<T, 8> more;
      if (residual)
        more = *reinterpret_cast<const Vec<T, 8>*>(Shape::kResidualFits ? fetched + r * BN + column
                                                                        : residual + m * p.ldr + n);
      const float* from = acc + r * Shape::kAccStride + column;
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = 0.f;
#pragma unroll
      for (int s = 0; s < Split; ++s) {
        const float4 lo = *reinterpret_cast<const float4*>(from + s * Shape::kRows * Shape::kAccStride);
        const float4 hi = *reinterpret_cast<const float4*>(from + s * Shape::kRows * Shape::kAccStride + 4);
        v[0] += lo.x, v[1] += lo.y, v[2] += lo.z, v[3] += lo.w;
        v[4] += hi.x, v[5] += hi.y, v[6] += hi.z, v[7] += hi.w;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] += biasTile[column + i];
      activate<T, 8>(v, p.activation);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = residual ? v[i] + toFloat(more.v[i]) : v[i];
      storeVec<T, 8>(static_cast<T*>(p.out) + m * p.ldo + n, v);
    }
  }
  if constexpr (CM * CN > 1) {
    // Nobody leaves while its barriers are being told of freed stages.
    __syncwarp();
    clusterArriveRelaxed();
    clusterWait();
  }
#endif
}

template <class T, int BM, int BN, int CM, int CN, int Split, int Stages, int Deep>
cudaError_t run(const GemmArgs& a, cudaStream_t stream) {
  using Shape = TileShape<BM, BN, CM, CN, Split, Stages, Deep>;
  if ((a.k + kBk * Deep - 1) / (kBk * Deep) < Split) return cudaErrorNotSupported;
  CUtensorMap mapX, mapW, mapResidual;
  if (!makeTensorMap(mapX, a.x, a.dtype, a.m, a.k, a.ldx, BM / CN) ||
      !makeTensorMap(mapW, a.w, a.dtype, a.n, a.k, a.ldw, BN / CM)) {
    return cudaErrorNotSupported;
  }
  mapResidual = mapX;
  const bool fetch = Shape::kResidualFits && a.residual;
  if (fetch && !makePlainMap(mapResidual, a.residual, a.dtype, a.m, a.n, a.ldr, Shape::kRows, BN))
    return cudaErrorNotSupported;
  auto kernel = gemmTile<T, BM, BN, CM, CN, Split, Stages, Deep>;
  static std::atomic<uint64_t> told{0};
  if (const cudaError_t failed =
          allowShared(kernel, Shape::kSmem + (Shape::kResidualFits ? Shape::kResidualBytes : 0), told);
      failed != cudaSuccess)
    return failed;
  const auto clusters = [](int64_t size, int tile, int tiles) {
    return (size + int64_t{tile} * tiles - 1) / (tile * tiles);
  };
  const int64_t clustersM = clusters(a.m, BM, CM), clustersN = clusters(a.n, BN, CN);
  const int64_t blocks = clustersM * clustersN * Shape::kCluster;
  if (blocks > INT32_MAX) return cudaErrorNotSupported;
  TileParams p{a.bias,
               a.residual,
               a.out,
               static_cast<int>(a.m),
               static_cast<int>(a.n),
               static_cast<int>(a.k),
               static_cast<int>(clustersN),
               a.ldr,
               a.ldo,
               a.activation,
               a.constantWeights && a.pdl};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(BM * 2 + 32);
  config.dynamicSmemBytes = Shape::kSmem + (fetch ? Shape::kResidualBytes : 0);
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  int count = 0;
  if (Shape::kCluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = Shape::kCluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  if (a.pdl) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, mapX, mapW, mapResidual, p);
}

// What the tuner may choose from: rows, columns, cluster rows, cluster columns, split of K, stages, slices to a stage.
#define GRAFT_TILE_VARIANTS(V) \
  V(64, 32, 1, 1, 1, 6, 2)     \
  V(64, 32, 1, 1, 2, 6, 2)     \
  V(64, 32, 1, 1, 4, 6, 1)     \
  V(64, 64, 1, 1, 1, 12, 1)    \
  V(64, 64, 1, 1, 1, 6, 2)     \
  V(64, 64, 1, 1, 1, 6, 1)     \
  V(64, 64, 2, 1, 1, 6, 2)     \
  V(64, 64, 4, 2, 1, 6, 2)     \
  V(64, 64, 1, 1, 2, 10, 1)    \
  V(64, 64, 1, 1, 2, 5, 2)     \
  V(64, 64, 1, 1, 3, 5, 1)     \
  V(64, 64, 1, 1, 4, 10, 1)    \
  V(64, 64, 1, 1, 4, 5, 1)     \
  V(64, 64, 1, 1, 6, 3, 2)     \
  V(64, 64, 1, 1, 6, 5, 1)     \
  V(64, 96, 1, 1, 1, 10, 1)    \
  V(64, 96, 1, 1, 1, 5, 1)     \
  V(64, 128, 1, 1, 1, 8, 1)    \
  V(128, 64, 1, 1, 1, 8, 1)    \
  V(128, 64, 1, 1, 1, 4, 1)    \
  V(128, 96, 1, 1, 1, 3, 1)    \
  V(128, 96, 1, 1, 1, 7, 1)    \
  V(128, 96, 2, 1, 1, 7, 1)    \
  V(128, 96, 2, 1, 1, 4, 1)    \
  V(128, 144, 2, 1, 1, 6, 1)   \
  V(128, 192, 1, 1, 1, 5, 1)   \
  V(128, 192, 2, 1, 1, 5, 1)

}  // namespace

#define GRAFT_V(bm, bn, cm, cn, split, stages, deep) TileVariant{bm, bn, cm, cn, split, stages, deep},
static const TileVariant kVariants[] = {GRAFT_TILE_VARIANTS(GRAFT_V)};
#undef GRAFT_V

int tileVariantCount() { return static_cast<int>(sizeof(kVariants) / sizeof(kVariants[0])); }
TileVariant tileVariant(int i) { return kVariants[i]; }

cudaError_t launchGemmTile(const GemmArgs& a, int variant, cudaStream_t stream) {
  if (a.dtype == Dtype::kFloat || a.n % 8 || a.k % 8 || a.ldo % 8 || (a.residual && a.ldr % 8))
    return cudaErrorNotSupported;
  if ((reinterpret_cast<uintptr_t>(a.out) | reinterpret_cast<uintptr_t>(a.residual)) % 16) return cudaErrorNotSupported;
  int i = 0;
#define GRAFT_V(bm, bn, cm, cn, split, stages, deep)                                                     \
  if (variant == i++) {                                                                                  \
    return a.dtype == Dtype::kHalf ? run<__half, bm, bn, cm, cn, split, stages, deep>(a, stream)         \
                                   : run<__nv_bfloat16, bm, bn, cm, cn, split, stages, deep>(a, stream); \
  }
  GRAFT_TILE_VARIANTS(GRAFT_V)
#undef GRAFT_V
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
