#pragma once
// The warp-level matrix instruction for half types: d[16,8] += a[16,16] b[16,8], accumulated in fp32
// (mma.sync.m16n8k16, sm_80 and newer). Lane l holds
//
//   d[0..1]  row l/4, columns l%4*2 + {0,1}        d[2..3]  the same, eight rows below
//   a[0]     row l/4, K = l%4*2 + {0,1}            a[1]     eight rows below
//   a[2..3]  as a[0..1], with K eight larger
//   b0       column l/4, K = l%4*2 + {0,1}         b1       with K eight larger
//
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16".
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace graft::cuda {

template <class T>
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mma<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace graft::cuda
