#pragma once
// Hopper's warpgroup matrix instruction wgmma m64nNk16, and the mbarrier and TMA instructions that feed it.
//
// Both operands lie in shared memory, K-major and 128-byte swizzled, as the TMA engine writes them: rows of 64 half
// elements (128 bytes), 8 rows to an atom of 1024 bytes.
//
// Accumulator layout, thread t of the warpgroup: d[4j+0..1] is row t/32*16 + t%32/4, columns 8j + t%4*2 + {0,1};
// d[4j+2..3] holds the same columns eight rows below.
//
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "mbarrier", "cp.async.bulk.tensor".
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace graft::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRAFT_HOPPER 1
#endif

__device__ __forceinline__ uint32_t sharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// The matrix descriptor of a K-major tile with 128-byte swizzle at a 1024-byte aligned address. Adding 2 to it advances
// 16 half elements along K.
__device__ __forceinline__ uint64_t tileDescriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | (uint64_t{1} << 16) | (uint64_t{64} << 32) |
         (uint64_t{1} << 62);
}

template <class T, int N>
struct Wgmma;

// One specialisation of Wgmma: d = a b, or d += a b with `accumulate`. d is N / 2 registers, whose numbers the
// instruction's text must spell out.
#define GRAFT_WGMMA(type, name, n, registers, a, b, p, ...)                                                          \
  template <>                                                                                                        \
  struct Wgmma<type, n> {                                                                                            \
    static __device__ __forceinline__ void run(float (&d)[n / 2], uint64_t x, uint64_t w, int accumulate) {          \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #p ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." name \
                   "." name " {" registers "}, %" #a ", %" #b ", p, 1, 1, 0, 0; }"                                   \
                   : __VA_ARGS__                                                                                     \
                   : "l"(x), "l"(w), "r"(accumulate));                                                               \
    }                                                                                                                \
  };
#define GRAFT_WGMMA_BOTH(n, registers, a, b, p, ...)             \
  GRAFT_WGMMA(__half, "f16", n, registers, a, b, p, __VA_ARGS__) \
  GRAFT_WGMMA(__nv_bfloat16, "bf16", n, registers, a, b, p, __VA_ARGS__)
#define GRAFT_ACC8(i)                                                                                         \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

#ifdef GRAFT_HOPPER
GRAFT_WGMMA_BOTH(32, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15", 16, 17, 18, GRAFT_ACC8(0),
                 GRAFT_ACC8(8))
GRAFT_WGMMA_BOTH(48,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23",
                 24, 25, 26, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16))
GRAFT_WGMMA_BOTH(64,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",
                 32, 33, 34, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24))
GRAFT_WGMMA_BOTH(96,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47",
                 48, 49, 50, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24), GRAFT_ACC8(32),
                 GRAFT_ACC8(40))
GRAFT_WGMMA_BOTH(128,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
                 "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
                 64, 65, 66, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24), GRAFT_ACC8(32),
                 GRAFT_ACC8(40), GRAFT_ACC8(48), GRAFT_ACC8(56))
GRAFT_WGMMA_BOTH(144,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
                 "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
                 "%70, %71",
                 72, 73, 74, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24), GRAFT_ACC8(32),
                 GRAFT_ACC8(40), GRAFT_ACC8(48), GRAFT_ACC8(56), GRAFT_ACC8(64))
GRAFT_WGMMA_BOTH(192,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
                 "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
                 "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
                 "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
                 "%87, %88, %89, %90, %91, %92, %93, %94, %95",
                 96, 97, 98, GRAFT_ACC8(0), GRAFT_ACC8(8), GRAFT_ACC8(16), GRAFT_ACC8(24), GRAFT_ACC8(32),
                 GRAFT_ACC8(40), GRAFT_ACC8(48), GRAFT_ACC8(56), GRAFT_ACC8(64), GRAFT_ACC8(72), GRAFT_ACC8(80),
                 GRAFT_ACC8(88))
#endif  // GRAFT_HOPPER
#undef GRAFT_ACC8
#undef GRAFT_WGMMA_BOTH
#undef GRAFT_WGMMA

#ifdef GRAFT_HOPPER
__device__ __forceinline__ void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

__device__ __forceinline__ void barrierInit(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(bar)), "r"(count) : "memory");
}
// Makes the initialised barriers visible to the TMA engine and to the other blocks of the cluster.
__device__ __forceinline__ void barrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrierExpect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(bar)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrierArrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(bar)) : "memory");
}
// Arrives at the same barrier of block `rank` of the cluster, with release semantics at the default (block) scope, as
// in CUTLASS. That is enough for a stage that only the tensor cores have read; a release at cluster scope would cost a
// GPU-wide memory barrier each time.
__device__ __forceinline__ void barrierArriveAt(uint64_t* bar, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(sharedAddress(bar)),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void barrierWaitAt(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again_%=; }" ::"r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void barrierWait(uint64_t* bar, uint32_t parity) {
  barrierWaitAt(sharedAddress(bar), parity);
}
// The functions named ...Elected are called by a whole warp and take effect in one lane, for which `elected`
// (electLane()) is 1. The loop around them stays uniform, so addresses live in uniform registers. In a branch taken by
// one lane the compiler would wrap every TMA instruction in a loop over the values that its operands might have.
__device__ __forceinline__ uint32_t electLane() {
  uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected;
}
__device__ __forceinline__ void barrierExpectElected(uint32_t elected, uint32_t bar, uint32_t bytes) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %2, 0;\n@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1; }" ::"r"(bar),
      "r"(bytes), "r"(elected)
      : "memory");
}
__device__ __forceinline__ void tmaLoadElected(uint32_t elected, uint32_t shared, const CUtensorMap* map, uint32_t bar,
                                               int column, int row) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"
      "@p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2]; }" ::
          "r"(shared),
      "l"(map), "r"(bar), "r"(column), "r"(row), "r"(elected)
      : "memory");
}
// Loads into every block of the cluster whose bit is set in `blocks`, at the same shared offset and barrier of each.
__device__ __forceinline__ void tmaLoadMulticastElected(uint32_t elected, uint32_t shared, const CUtensorMap* map,
                                                        uint32_t bar, int column, int row, uint16_t blocks) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
      "@p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5}], [%2], %3; }" ::"r"(shared),
      "l"(map), "r"(bar), "h"(blocks), "r"(column), "r"(row), "r"(elected)
      : "memory");
}
// Loads into the L2 cache only.
__device__ __forceinline__ void tmaPrefetchElected(uint32_t elected, const CUtensorMap* map, int column, int row) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %3, 0;\n@p cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}]; }" ::"l"(
          map),
      "r"(column), "r"(row), "r"(elected)
      : "memory");
}
// Loads the box of a 2-D tensor map that begins at (column, row) into shared memory; `bar` counts its bytes.
__device__ __forceinline__ void tmaLoad(void* shared, const CUtensorMap* map, uint64_t* bar, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(bar)), "r"(column), "r"(row)
      : "memory");
}
// Stores a box of shared memory, 128-byte swizzled, to a 2-D tensor map, as part of the thread's current bulk group.
__device__ __forceinline__ void tmaStore(const CUtensorMap* map, const void* shared, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
               "r"(row), "r"(sharedAddress(shared))
               : "memory");
}
// Stores four 8x8 matrices of half elements, laid out like the accumulator, to rows whose addresses lanes 8i..8i+7
// give. The asm has no "memory" clobber, so that the compiler may move loads across it: put a fence between it and the
// readers of what it wrote.
__device__ __forceinline__ void storeMatrix4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
               "r"(d));
}
// Loads what storeMatrix4 stores, after a wait for whoever wrote it. An mbarrier arrival that frees the memory does not
// wait for this load: it must stand after the first use of the result. tests/gpu/machine_code.py checks that it does.
__device__ __forceinline__ void loadMatrix4(uint32_t from, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void storeMatrix2(uint32_t to, uint32_t a, uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b));
}
__device__ __forceinline__ void loadMatrix2(uint32_t from, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(from)
               : "memory");
}

// The offset in bytes of a chunk (eight columns) of a row, in a tile of half elements that consists of boxes of Rows x
// Box (32, 16 or 8) columns, one after the other, swizzled as makeBoxMap (gemm/tensor_map.h) describes them.
template <int Rows, int Box>
__device__ __forceinline__ int boxOffset(int row, int chunk) {
  constexpr int kChunks = Box / 8;
  return (chunk / kChunks * Rows + row) * Box * 2 + (((chunk % kChunks) ^ (row * Box * 2 >> 7 & (kChunks - 1))) << 4);
}
// The same for stmatrix and ldmatrix on the sixteen rows of warp `warp`: a step covers two chunks, or one where a box
// is only one chunk wide.
template <int Rows, int Box>
struct BoxPlace {
  uint32_t first;
  __device__ __forceinline__ BoxPlace(uint32_t tile, int warp, int lane)
      : first(tile + boxOffset<Rows, Box>(warp * 16 + lane % 16, Box == 8 ? 0 : lane / 16)) {}
  __device__ __forceinline__ uint32_t operator()(int step) const {
    constexpr int kSteps = Box == 32 ? 2 : 1;  // per box
    return step / kSteps * Rows * Box * 2 + (first ^ (step % kSteps << 5));
  }
};

__device__ __forceinline__ void tmaPrefetchMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ uint32_t clusterRank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// Relaxed order suffices after initialising barriers (with barrierInitFence) and before a common exit.
__device__ __forceinline__ void clusterArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void clusterWait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// The address of the same shared memory location in block `rank` of the cluster.
__device__ __forceinline__ uint32_t remoteAddress(uint32_t shared, uint32_t rank) {
  uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared), "r"(rank));
  return r;
}
// Writes two floats into another block's shared memory and counts their 8 bytes at a barrier there. It needs neither a
// fence nor a cluster barrier.
__device__ __forceinline__ void storeAsync(uint32_t remote, float a, float b, uint32_t remoteBarrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(remote),
               "f"(a), "f"(b), "r"(remoteBarrier)
               : "memory");
}

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
#endif  // GRAFT_HOPPER

}  // namespace graft::cuda
