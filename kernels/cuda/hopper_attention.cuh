#pragma once
// What attention needs of Hopper beyond hopper.cuh: wgmma with A in registers and B stored with its rows along K (V as
// it lies in memory), and TMA boxes of a 4-D tensor.
//
// A in registers, thread t of the warpgroup, 16 columns of K: a[0] row t/32*16 + t%32/4, columns t%4*2 + {0,1}; a[1]
// the same eight rows below; a[2], a[3] the same eight columns to the right. It is the accumulator's layout, so a
// product's result is the next one's operand without an exchange.
#include "kernels/cuda/hopper.cuh"

namespace graft::cuda {

#ifdef GRAFT_HOPPER
// Descriptor of a tile [rows along K][64 columns] with 128-byte swizzle: 16 rows are one step of K, +128 (in the
// descriptor's units) the next. `panel` is the distance in bytes to the next 64 columns.
__device__ __forceinline__ uint64_t rowsDescriptor(uint32_t address, uint32_t panel) {
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | (static_cast<uint64_t>(panel >> 4) << 16) |
         (uint64_t{64} << 32) | (uint64_t{1} << 62);
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

// A box of a 4-D tensor map [batch, head, position, column] into shared memory; completion is counted at `bar`.
__device__ __forceinline__ void tmaLoadHead(void* shared, const CUtensorMap* map, uint64_t* bar, int column,
                                            int position, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(bar)), "r"(column), "r"(position), "r"(head), "r"(batch)
      : "memory");
}
#endif  // GRAFT_HOPPER

}  // namespace graft::cuda
