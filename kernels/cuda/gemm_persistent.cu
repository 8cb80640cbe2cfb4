// out = residual + act(x w^T + bias) for many rows: persistent blocks, ping-pong warpgroups, 128 x 192 tiles.
//
// Shapes: x [m,k], w [n,k], out [m,n], fp16 or bf16 with fp32 accumulation; k, n and the row strides multiples of 8.
// Two consumer warpgroups take turns: while one multiplies its tile, the other runs the epilogue of its own, so the
// exact GELU hides behind the tensor cores. 192 columns divide BERT-like widths (768, 2304, 3072) into whole waves of
// 132 SMs. The blocks of a cluster work on CM x CN neighbouring tiles; what several need, each loads a share of and
// multicasts (TMA), which is what keeps the L2 from being the limit. Sources: the ping-pong schedule is CUTLASS's
// (KernelTmaWarpSpecializedPingpong); the code is not.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tensor_map.h"

namespace graft::cuda {
namespace {

constexpr int kBm = 128, kBn = 192, kBk = 64, kStages = 5;
constexpr int kStageBytes = (kBm + kBn) * kBk * 2;
constexpr int kSmem = kStages * kStageBytes;

struct Params {
  const void* bias;
  const void* residual;
  void* out;
  int m, n, k;
  int64_t ldr, ldo;
  int tilesM, tilesN;
  Activation activation;
};

#ifdef GRAFT_HOPPER
// Transposes 4x4 registers over the four lanes of a quad: lane i's r[j] becomes lane j's r[i].
__device__ __forceinline__ void quadTranspose(uint32_t (&r)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
  uint32_t a = __shfl_xor_sync(~0u, odd ? r[0] : r[1], 1), b = __shfl_xor_sync(~0u, odd ? r[2] : r[3], 1);
  if (odd) {
    r[0] = a, r[2] = b;
  } else {
    r[1] = a, r[3] = b;
  }
  a = __shfl_xor_sync(~0u, high ? r[0] : r[2], 2), b = __shfl_xor_sync(~0u, high ? r[1] : r[3], 2);
  if (high) {
    r[0] = a, r[1] = b;
  } else {
    r[2] = a, r[3] = b;
  }
}

// Finishes 64 rows of a tile: accumulator d, rows from m0, columns from n0. Lane i of a quad ends with the 8 columns of
// the i-th of four neighbouring column blocks, so that it can read the residual and write 16 bytes at a time. The loop
// over the columns is kept a loop, the accumulator moving through the registers it reads: unrolled, its code would not
// fit the instruction cache.
template <class T>
__device__ __forceinline__ void finish(float (&d)[kBn / 2], const Params& p, int m0, int n0, int warp, int lane) {
  const int quad = lane % 4;
  const T* bias = static_cast<const T*>(p.bias);
  const T* residual = static_cast<const T*>(p.residual);
#pragma unroll 1
  for (int j = 0; j < kBn / 8 && n0 + j * 8 < p.n; j += 4) {
    const int column = n0 + (j + quad) * 8;
    if (bias) {
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const int n = n0 + (j + b) * 8 + quad * 2;
        if (n < p.n) {
          const float2 f = unpack2<T>(*reinterpret_cast<const uint32_t*>(bias + n));
          d[4 * b] += f.x, d[4 * b + 1] += f.y, d[4 * b + 2] += f.x, d[4 * b + 3] += f.y;
        }
      }
    }
    activate<T, 16>(d, p.activation);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + (warp % 4) * 16 + lane / 4 + half * 8;
      const bool inside = m < p.m && column < p.n;
      uint32_t r[4] = {0, 0, 0, 0};
      if (residual) {
        if (inside) {
          const uint4 x = *reinterpret_cast<const uint4*>(residual + m * p.ldr + column);
          r[0] = x.x, r[1] = x.y, r[2] = x.z, r[3] = x.w;
        }
        quadTranspose(r, lane);
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const float2 f = unpack2<T>(r[b]);
          d[4 * b + 2 * half] += f.x, d[4 * b + 2 * half + 1] += f.y;
        }
      }
#pragma unroll
      for (int b = 0; b < 4; ++b) r[b] = pack2<T>(d[4 * b + 2 * half], d[4 * b + 2 * half + 1]);
      quadTranspose(r, lane);
      if (inside)
        *reinterpret_cast<uint4*>(static_cast<T*>(p.out) + m * p.ldo + column) = make_uint4(r[0], r[1], r[2], r[3]);
    }
#pragma unroll
    for (int i = 0; i + 16 < kBn / 2; ++i) d[i] = d[i + 16];
  }
}
#endif

// Groups of CM x CN tiles go to clusters round robin, columns first: the weights stay in L2 and x is read once.
template <class T, int CM, int CN>
__global__ void __launch_bounds__(384, 1)
    gemmPersistent(const __grid_constant__ CUtensorMap mapX, const __grid_constant__ CUtensorMap mapW, const Params p) {
#ifdef GRAFT_HOPPER
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ __align__(8) uint64_t full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
    barrierInitFence();
  }
  clusterArriveRelaxed();
  clusterWait();
  pdlTrigger();

  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0 && lane == 0) {
      pdlWait();
      int i = 0;
      for (int g = firstGroup; g < groups; g += step) {
        const int m0 = (g / groupsN * CM + im) * kBm, n0 = (g % groupsN * CN + in) * kBn;
        for (int slice = 0; slice < slices; ++slice, ++i) {
          const int s = i % kStages;
          if (i >= kStages) barrierWait(&empty[s], (i / kStages - 1) & 1);
          barrierExpect(&full[s], kStageBytes);
          uint8_t* x = smem + s * kStageBytes;
          uint8_t* w = x + kBm * kBk * 2;
          constexpr int kShareX = kBm / CN, kShareW = kBn / CM;
          tmaLoadMulticast(w + im * kShareW * kBk * 2, &mapW, &full[s], slice * kBk, n0 + im * kShareW,
                           static_cast<uint16_t>(((1 << CM) - 1) << (rank - im)));
          if constexpr (CN > 1) {
            uint32_t blocks = 0;
#pragma unroll
            for (int c = 0; c < CN; ++c) blocks |= 1u << (im + CM * c);
            tmaLoadMulticast(x + in * kShareX * kBk * 2, &mapX, &full[s], slice * kBk, m0 + in * kShareX,
                             static_cast<uint16_t>(blocks));
          } else {
            tmaLoad(x, &mapX, &full[s], slice * kBk, m0);
          }
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    pdlWait();
    const int group = warp / 4 - 1;
    // Whose empty barriers hear of a freed stage: those of all that write into it.
    uint32_t listener = 0;
    if (lane < CN) {
      listener = im + CM * lane;
    } else if (lane < CN + CM - 1) {
      const int other = lane - CN;
      listener = rank - im + (other < im ? other : other + 1);
    }
    auto release = [&](int s) {
      if (lane < CN + CM - 1) barrierArriveAt(&empty[s], listener);
    };
    // The warpgroups multiply strictly in turn: besides sharing the tensor cores well, it keeps each from mistaking an
    // earlier phase of a stage for the one it waits for.
    auto awaitTurn = [&] { asm volatile("bar.sync %0, 256;" ::"r"(2 + group) : "memory"); };
    auto passTurn = [&] { asm volatile("bar.arrive %0, 256;" ::"r"(3 - group) : "memory"); };
    if (group == 1) passTurn();
    int turn = 0;
    for (int g = firstGroup; g < groups; g += step, ++turn) {
      if ((turn & 1) != group) continue;
      float d0[kBn / 2], d1[kBn / 2];
      const int base = turn * slices;
      awaitTurn();
      for (int slice = 0; slice < slices; ++slice) {
        const int i = base + slice, s = i % kStages;
        barrierWait(&full[s], (i / kStages) & 1);
        const uint32_t stage = sharedAddress(smem + s * kStageBytes);
        const uint64_t a = tileDescriptor(stage), b = tileDescriptor(stage + kBm * kBk * 2);
        wgmmaFence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
          Wgmma<T, kBn>::run(d0, a + kk * 2, b + kk * 2, slice > 0 || kk > 0);
          Wgmma<T, kBn>::run(d1, a + 64 * kBk * 2 / 16 + kk * 2, b + kk * 2, slice > 0 || kk > 0);
        }
        wgmmaCommit();
        wgmmaWait<1>();
        if (slice > 0) release((i - 1) % kStages);
      }
      passTurn();
      wgmmaWait<0>();
      release((base + slices - 1) % kStages);
      const int m0 = (g / groupsN * CM + im) * kBm, n0 = (g % groupsN * CN + in) * kBn;
      finish<T>(d0, p, m0, n0, warp, lane);
      finish<T>(d1, p, m0 + 64, n0, warp, lane);
    }
  }
  // A block stays until its neighbours send it nothing more.
  __syncwarp();
  clusterArriveRelaxed();
  clusterWait();
#endif
}

template <class T, int CM, int CN>
cudaError_t run(const GemmArgs& a, cudaStream_t stream) {
  CUtensorMap mapX, mapW;
  if (!makeTensorMap(mapX, a.x, a.dtype, a.m, a.k, a.ldx, kBm / CN) ||
      !makeTensorMap(mapW, a.w, a.dtype, a.n, a.k, a.ldw, kBn / CM)) {
    return cudaErrorNotSupported;
  }
  auto kernel = gemmPersistent<T, CM, CN>;
  static const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem);
  if (allowed != cudaSuccess) return allowed;
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
           a.residual,
           a.out,
           static_cast<int>(a.m),
           static_cast<int>(a.n),
           static_cast<int>(a.k),
           a.ldr,
           a.ldo,
           static_cast<int>((a.m + kBm - 1) / kBm),
           static_cast<int>((a.n + kBn - 1) / kBn),
           a.activation};
  const int groups = (p.tilesM + CM - 1) / CM * ((p.tilesN + CN - 1) / CN);
  config.gridDim = dim3(static_cast<unsigned>((groups < resident ? groups : resident) * CM * CN));
  config.numAttrs = a.pdl ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, mapX, mapW, p);
}

}  // namespace

cudaError_t launchGemmPersistent(const GemmArgs& a, int columns, cudaStream_t stream) {
  if (a.dtype == Dtype::kFloat || a.n % 8 || a.k % 8 || a.ldo % 8 || (a.residual && a.ldr % 8))
    return cudaErrorNotSupported;
  const uintptr_t pointers = reinterpret_cast<uintptr_t>(a.out) | reinterpret_cast<uintptr_t>(a.bias) |
                             reinterpret_cast<uintptr_t>(a.residual);
  if (pointers % 16) return cudaErrorNotSupported;
  const bool half = a.dtype == Dtype::kHalf;
  if (columns == 1) return half ? run<__half, 2, 1>(a, stream) : run<__nv_bfloat16, 2, 1>(a, stream);
  if (columns == 2) return half ? run<__half, 2, 2>(a, stream) : run<__nv_bfloat16, 2, 2>(a, stream);
  return cudaErrorInvalidValue;
}

}  // namespace graft::cuda
