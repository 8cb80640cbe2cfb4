#pragma once
// Loads of attention masks and their values. A bool mask keeps (true) or hides (false) a position; a floating-point
// mask is added to the scores.
#include "kernels/cuda/common.cuh"

namespace graft::cuda {

constexpr float kLog2e = 1.4426950408889634f;
// A mask value for scores in the base-2 domain. The lowest finite values must stay finite, because a row of them is not
// a masked-out row.
__device__ __forceinline__ float maskLog2(float x) { return x == -INFINITY ? x : fmaxf(x * kLog2e, -3e38f); }

// A mask value for scores that are not scaled yet, as in exp2((score - maximum) * scale): the mask divided by the
// scale.
//
// Beyond 2^23, where neighbouring fp32 values are at least one apart, the value becomes a power of two so large that
// adding it erases the score. Products with the scale are then exact, and a row hidden by -1e9 or the lowest finite
// value gets even weights, as in PyTorch, rather than weights that depend on rounding errors. The order of values,
// infinities and NaN are kept.
__device__ __forceinline__ float maskUnscaled(float m, float perScale) {
  if (!(fabsf(m) >= 0x1p23f)) return m * perScale;
  if (fabsf(m) == INFINITY) return m;
  return __uint_as_float(__float_as_uint(fminf(fmaxf(m * 0x1p40f, -0x1p100f), 0x1p100f)) & 0xff800000u);
}

// The value to add to a score for element `at` of the mask.
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

// loadMask in two steps, so that other work can hide the load's latency.
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
