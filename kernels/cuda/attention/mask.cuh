#pragma once
// Reading a mask of any kind: a bool mask keeps (true) or hides (false) a position, the others are added.
#include "kernels/cuda/common.cuh"

namespace graft::cuda {

constexpr float kLog2e = 1.4426950408889634f;
// A mask value in the base-2 domain. The lowest finite values must stay finite: a row of them is not a masked-out row.
__device__ __forceinline__ float maskLog2(float x) { return x == -INFINITY ? x : fmaxf(x * kLog2e, -3e38f); }

// Where scores are not scaled yet (their differences are, as in exp2((s - top) * scale)), a mask is divided by the
// scale. Beyond 2^23, where fp32 itself leaves no more than steps of one, it becomes a power of two far enough away to
// leave nothing of the score beside it: products with the scale are then exact, and rows hidden by -1e9 or the lowest
// finite value are as even as in PyTorch instead of 2^(their rounding). Order, infinity and NaN stay.
__device__ __forceinline__ float maskUnscaled(float m, float perScale) {
  if (!(fabsf(m) >= 0x1p23f)) return m * perScale;
  if (fabsf(m) == INFINITY) return m;
  return __uint_as_float(__float_as_uint(fminf(fmaxf(m * 0x1p40f, -0x1p100f), 0x1p100f)) & 0xff800000u);
}

// What is added to the score at element `at` of the mask.
__device__ __forceinline__ float loadMask(const MaskArg& mask, int64_t at) {
  switch (mask.kind) {
    case MaskKind::kBool:
      return static_cast<const bool*>(mask.data)[at] ? 0.f : -INFINITY;
    case MaskKind::kFloat:
      return static_cast<const float*>(mask.data)[at];
    case MaskKind::kHalf:
      return __half2float(static_cast<const __half*>(mask.data)[at]);
    case MaskKind::kBfloat16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(mask.data)[at]);
    default:
      return 0.f;
  }
}

// The same in two steps, so that work can be done while the load is under way.
__device__ __forceinline__ uint32_t loadMaskBits(const MaskArg& mask, int64_t at) {
  if (mask.kind == MaskKind::kBool) return static_cast<const uint8_t*>(mask.data)[at];
  if (mask.kind == MaskKind::kFloat) return static_cast<const uint32_t*>(mask.data)[at];
  return static_cast<const uint16_t*>(mask.data)[at];
}
__device__ __forceinline__ float maskOfBits(MaskKind kind, uint32_t bits) {
  if (kind == MaskKind::kBool) return bits ? 0.f : -INFINITY;
  if (kind == MaskKind::kFloat) return __uint_as_float(bits);
  if (kind == MaskKind::kBfloat16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

}  // namespace graft::cuda
