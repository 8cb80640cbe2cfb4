// out = residual + act(x w^T + bias) for many rows: persistent blocks, ping-pong warpgroups, 128 x 192 tiles.
//
// Shapes: x [m,k], w [n,k], out [m,n], fp16 or bf16, accumulated in fp32; k, n and the row strides are multiples of 8.
// Two consumer warpgroups take turns: while one multiplies its tile, the other runs the epilogue of its own. So the
// exact GELU hides behind the tensor cores as long as it takes less time than they do. Results leave through shared
// memory and the TMA engine. 192 columns divide BERT-like widths (768, 2304, 3072) into whole waves of 132 SMs. The
// blocks of a cluster work on CM tiles of the same columns; each loads a share of the weights and multicasts it.
//
// Source: the schedule is that of CUTLASS's KernelTmaWarpSpecializedPingpong; the code is our own.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/gemm/tensor_map.h"
#include "kernels/cuda/hopper.cuh"

namespace graft::cuda {
namespace {

constexpr int kBm = 128, kBn = 192, kBk = 64, kStages = 4;
constexpr int kStageBytes = (kBm + kBn) * kBk * 2;
constexpr int kStoreBytes = 64 * kBn * 2;  // half a tile of results; each warpgroup has one
constexpr int kSmem = kStages * kStageBytes + 2 * kStoreBytes;

struct Params {
  const void* bias;
  int m, n, k;
  int tilesM, tilesN;
  bool constantWeights;
};

#ifdef GRAFT_HOPPER
// The epilogue of 64 rows from m0 and 192 columns from n0: writes the accumulator d to `store` as three boxes of 64
// columns, which the TMA engine stores; it drops what lies beyond the matrix. fetchResidual has put the residual into
// `store` before. All loops are unrolled, because an accumulator in registers cannot be indexed at run time.
template <class T, Activation Act, bool Residual>
__device__ __forceinline__ void finish(const float (&d)[kBn / 2], const Params& p, const CUtensorMap* mapOut,
                                       const float* bias, uint8_t* store, int m0, int n0, int group, int warp,
                                       int lane) {
  const auto syncGroup = [&] { asm volatile("bar.sync %0, 128;" ::"r"(4 + group) : "memory"); };
  const int inGroup = warp % 4;
  if (!Residual && inGroup == 0 && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  syncGroup();  // the previous half has been stored, and the bias is loaded
  const int boxRow = inGroup * 16 + lane % 16;
  const uint32_t to = sharedAddress(store) + boxRow * 128 + (((lane / 16) ^ (boxRow % 8)) << 4);
  // The bias is read a step ahead: with one warp per scheduler nothing else would hide its latency.
  constexpr int kSteps = kBn / 16;
  float2 add[2][2];
  const auto readBias = [&](int step) {
#pragma unroll
    for (int b = 0; b < 2; ++b)
      add[step % 2][b] = *reinterpret_cast<const float2*>(bias + step * 16 + b * 8 + lane % 4 * 2);
  };
  readBias(0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int j = step * 2;
    const uint32_t at = j / 8 * 64 * 128 + (to ^ (j % 8 << 4));
    uint32_t more[4];
    if constexpr (Residual) loadMatrix4(at, more);
    if (step + 1 < kSteps) readBias(step + 1);
    float v[8];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const float2 f = add[step % 2][b];
      v[4 * b] = d[4 * (j + b)] + f.x, v[4 * b + 1] = d[4 * (j + b) + 1] + f.y;
      v[4 * b + 2] = d[4 * (j + b) + 2] + f.x, v[4 * b + 3] = d[4 * (j + b) + 3] + f.y;
    }
    activate<T, 8>(v, Act);
    if constexpr (Residual) {
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const float2 f = unpack2<T>(more[b]);
        v[2 * b] += f.x, v[2 * b + 1] += f.y;
      }
    }
    storeMatrix4(at, pack2<T>(v[0], v[1]), pack2<T>(v[2], v[3]), pack2<T>(v[4], v[5]), pack2<T>(v[6], v[7]));
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  syncGroup();
  if (inGroup == 0 && lane == 0) {
    for (int box = 0; box < kBn / 64; ++box) {
      if (n0 + box * 64 < p.n && m0 < p.m) tmaStore(mapOut, store + box * 64 * 128, n0 + box * 64, m0);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
}

// Loads 64 rows of the residual into `store`, once its previous contents have been stored. Called by one thread.
__device__ __forceinline__ void fetchResidual(const CUtensorMap* map, uint8_t* store, uint64_t* bar, int m0, int n0) {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  barrierExpect(bar, kStoreBytes);
  for (int box = 0; box < kBn / 64; ++box) tmaLoad(store + box * 64 * 128, map, bar, n0 + box * 64, m0);
}
#endif

// Groups of CM x CN tiles go to the clusters round robin, columns first: the weights stay in the L2 and x is read once.
template <class T, int CM, int CN, Activation Act, bool Residual>
__global__ void __launch_bounds__(384, 1)
    gemmPersistent(const __grid_constant__ CUtensorMap mapX, const __grid_constant__ CUtensorMap mapW,
                   const __grid_constant__ CUtensorMap mapOut, const __grid_constant__ CUtensorMap mapResidual,
                   const Params p) {
#ifdef GRAFT_HOPPER
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ __align__(8) uint64_t full[kStages], empty[kStages], residual[2];
  __shared__ __align__(16) float biases[2][kBn];
  // The shuffle tells the compiler that `warp` is uniform: it serialises wgmma under branches that might diverge.
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  constexpr int kCluster = CM * CN;
  const int rank = static_cast<int>(clusterRank()), im = rank % CM, in = rank / CM;
  const int slices = (p.k + kBk - 1) / kBk;
  const int groupsN = (p.tilesN + CN - 1) / CN, groups = (p.tilesM + CM - 1) / CM * groupsN;
  const int firstGroup = blockIdx.x / kCluster, step = gridDim.x / kCluster;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrierInit(&full[s], 1);
      barrierInit(&empty[s], 4 * (CM + CN - 1));
    }
    barrierInit(&residual[0], 1), barrierInit(&residual[1], 1);
    barrierInitFence();
  }
  clusterArriveRelaxed();
  clusterWait();
  pdlTrigger();

  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0) {
      const uint32_t elected = electLane(), ring = sharedAddress(smem);
      const uint32_t fulls = sharedAddress(full), empties = sharedAddress(empty);
      if (elected) tmaPrefetchMap(&mapX), tmaPrefetchMap(&mapW), tmaPrefetchMap(&mapOut), tmaPrefetchMap(&mapResidual);
      constexpr int kShareX = kBm / CN, kShareW = kBn / CM;
      const auto loadW = [&](int stage, int slice, int n0) {
        const uint32_t to = ring + stage * kStageBytes + kBm * kBk * 2 + im * kShareW * kBk * 2;
        if constexpr (CM > 1) {
          tmaLoadMulticastElected(elected, to, &mapW, fulls + stage * 8, slice * kBk, n0 + im * kShareW,
                                  static_cast<uint16_t>(((1 << CM) - 1) << (rank - im)));
        } else {
          tmaLoadElected(elected, to, &mapW, fulls + stage * 8, slice * kBk, n0);
        }
      };
      // The first weights are loaded while the previous kernel still runs.
      int early = p.constantWeights && firstGroup < groups ? min(slices, kStages) : 0;
#pragma unroll 1
      for (int i = 0; i < early; ++i) {
        barrierExpectElected(elected, fulls + i * 8, kStageBytes);
        loadW(i, i, (firstGroup % groupsN * CN + in) * kBn);
      }
      pdlWait();
      int s = 0;
      uint32_t parity = 1;  // a wait for the phase before a barrier's first one returns at once
#pragma unroll 1
      for (int g = firstGroup; g < groups; g += step) {
        const int m0 = (g / groupsN * CM + im) * kBm, n0 = (g % groupsN * CN + in) * kBn;
#pragma unroll 1
        for (int slice = 0; slice < slices; ++slice) {
          const uint32_t x = ring + s * kStageBytes;
          if (early > 0) {
            --early;
          } else {
            barrierWaitAt(empties + s * 8, parity);
            barrierExpectElected(elected, fulls + s * 8, kStageBytes);
            loadW(s, slice, n0);
          }
          if constexpr (CN > 1) {
            uint32_t blocks = 0;
#pragma unroll
            for (int c = 0; c < CN; ++c) blocks |= 1u << (im + CM * c);
            tmaLoadMulticastElected(elected, x + in * kShareX * kBk * 2, &mapX, fulls + s * 8, slice * kBk,
                                    m0 + in * kShareX, static_cast<uint16_t>(blocks));
          } else {
            tmaLoadElected(elected, x, &mapX, fulls + s * 8, slice * kBk, m0);
          }
          if (++s == kStages) s = 0, parity ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    pdlWait();
    const int group = warp / 4 - 1;
    // A freed stage is reported to the empty barriers of all blocks that write into it; this lane reports to one block.
    uint32_t listener = 0;  // its rank in the cluster
    if (lane < CN) {
      listener = im + CM * lane;
    } else if (lane < CN + CM - 1) {
      const int other = lane - CN;
      listener = rank - im + (other < im ? other : other + 1);
    }
    auto release = [&](int s) {
      if (lane < CN + CM - 1) barrierArriveAt(&empty[s], listener);
    };
    // The warpgroups multiply strictly in turn. That shares the tensor cores well, and keeps a warpgroup from taking an
    // earlier phase of a stage for the one it waits for.
    auto awaitTurn = [&] { asm volatile("bar.sync %0, 256;" ::"r"(2 + group) : "memory"); };
    auto passTurn = [&] { asm volatile("bar.arrive %0, 256;" ::"r"(3 - group) : "memory"); };
    if (group == 1) passTurn();
    const uint32_t fulls = sharedAddress(full);
    const uint64_t a0 = tileDescriptor(sharedAddress(smem)), b0 = tileDescriptor(sharedAddress(smem) + kBm * kBk * 2);
    int turn = 0;
    for (int g = firstGroup; g < groups; g += step, ++turn) {
      if ((turn & 1) != group) continue;
      float d0[kBn / 2], d1[kBn / 2];
      const int base = turn * slices;
      const int m0 = (g / groupsN * CM + im) * kBm, n0 = (g % groupsN * CN + in) * kBn;
      for (int i = threadIdx.x % 128; i < kBn; i += 128)
        biases[group][i] = p.bias && n0 + i < p.n ? toFloat(static_cast<const T*>(p.bias)[n0 + i]) : 0.f;
      uint8_t* store = smem + kStages * kStageBytes + group * kStoreBytes;
      if constexpr (Residual) {
        if (threadIdx.x % 128 == 0) fetchResidual(&mapResidual, store, &residual[group], m0, n0);
      }
      awaitTurn();
      int s = base % kStages, before = 0;
      uint32_t parity = base / kStages & 1;
#pragma unroll 1
      for (int slice = 0; slice < slices; ++slice) {
        barrierWaitAt(fulls + s * 8, parity);
        const uint64_t a = a0 + s * (kStageBytes / 16), b = b0 + s * (kStageBytes / 16);
        wgmmaFence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
          Wgmma<T, kBn>::run(d0, a + kk * 2, b + kk * 2, slice > 0 || kk > 0);
          Wgmma<T, kBn>::run(d1, a + 64 * kBk * 2 / 16 + kk * 2, b + kk * 2, slice > 0 || kk > 0);
        }
        wgmmaCommit();
        wgmmaWait<1>();
        if (slice > 0) release(before);
        before = s;
        if (++s == kStages) s = 0, parity ^= 1;
      }
      passTurn();
      wgmmaWait<0>();
      release(before);
      if constexpr (Residual) barrierWait(&residual[group], 0);
      finish<T, Act, Residual>(d0, p, &mapOut, biases[group], store, m0, n0, group, warp, lane);
      if constexpr (Residual) {
        if (threadIdx.x % 128 == 0) fetchResidual(&mapResidual, store, &residual[group], m0 + 64, n0);
        barrierWait(&residual[group], 1);
      }
      finish<T, Act, Residual>(d1, p, &mapOut, biases[group], store, m0 + 64, n0, group, warp, lane);
    }
  }
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  // A block must not exit while its neighbours may still write to its shared memory.
  __syncwarp();
  clusterArriveRelaxed();
  clusterWait();
#endif
}

template <class T, int CM, int CN, Activation Act, bool Residual>
cudaError_t run(const GemmArgs& a, cudaStream_t stream) {
  CUtensorMap mapX, mapW, mapOut, mapResidual;
  if (!makeTensorMap(mapX, a.x, a.dtype, a.m, a.k, a.ldx, kBm / CN) ||
      !makeTensorMap(mapW, a.w, a.dtype, a.n, a.k, a.ldw, kBn / CM) ||
      !makeTensorMap(mapOut, a.out, a.dtype, a.m, a.n, a.ldo, 64)) {
    return cudaErrorNotSupported;
  }
  mapResidual = mapOut;
  if (Residual && !makeTensorMap(mapResidual, a.residual, a.dtype, a.m, a.n, a.ldr, 64)) return cudaErrorNotSupported;
  auto kernel = gemmPersistent<T, CM, CN, Act, Residual>;
  static std::atomic<uint64_t> configured{0};
  if (const cudaError_t failed = allowShared(kernel, kSmem, configured); failed != cudaSuccess) return failed;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = CM * CN;
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(384);
  config.dynamicSmemBytes = kSmem;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 1;
  config.gridDim = dim3(CM * CN);
  static const int resident = [&] {
    int clusters = 0;
    return cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess ? clusters : 0;
  }();
  if (resident == 0) return cudaErrorNotSupported;
  Params p{a.bias,
           static_cast<int>(a.m),
           static_cast<int>(a.n),
           static_cast<int>(a.k),
           static_cast<int>((a.m + kBm - 1) / kBm),
           static_cast<int>((a.n + kBn - 1) / kBn),
           a.constantWeights && a.pdl};
  const int groups = (p.tilesM + CM - 1) / CM * ((p.tilesN + CN - 1) / CN);
  config.gridDim = dim3(static_cast<unsigned>((groups < resident ? groups : resident) * CM * CN));
  config.numAttrs = launchesAhead(a.pdl) ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, mapX, mapW, mapOut, mapResidual, p);
}

template <class T, int CM, int CN>
cudaError_t byActivation(const GemmArgs& a, cudaStream_t stream) {
  switch (a.activation) {
    case Activation::kNone:
      return a.residual ? run<T, CM, CN, Activation::kNone, true>(a, stream)
                        : run<T, CM, CN, Activation::kNone, false>(a, stream);
    case Activation::kGelu:
      return a.residual ? cudaErrorNotSupported : run<T, CM, CN, Activation::kGelu, false>(a, stream);
    case Activation::kGeluTanh:
      return a.residual ? cudaErrorNotSupported : run<T, CM, CN, Activation::kGeluTanh, false>(a, stream);
    case Activation::kSilu:
      return a.residual ? cudaErrorNotSupported : run<T, CM, CN, Activation::kSilu, false>(a, stream);
    case Activation::kRelu:
      return a.residual ? cudaErrorNotSupported : run<T, CM, CN, Activation::kRelu, false>(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launchGemmPersistent(const GemmArgs& a, int rows, cudaStream_t stream) {
  if (a.dtype == Dtype::kFloat || a.n % 8 || a.k % 8 || a.ldo % 8 || (a.residual && a.ldr % 8))
    return cudaErrorNotSupported;
  const uintptr_t pointers = reinterpret_cast<uintptr_t>(a.out) | reinterpret_cast<uintptr_t>(a.bias) |
                             reinterpret_cast<uintptr_t>(a.residual);
  if (pointers % 16) return cudaErrorNotSupported;
  const bool half = a.dtype == Dtype::kHalf;
  if (rows == 1) return half ? byActivation<__half, 1, 1>(a, stream) : byActivation<__nv_bfloat16, 1, 1>(a, stream);
  if (rows == 2) return half ? byActivation<__half, 2, 1>(a, stream) : byActivation<__nv_bfloat16, 2, 1>(a, stream);
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
