#pragma once
// Reading a mask of any kind: a bool mask keeps (true) or hides (false) a position, the others are added.
#include "kernels/cuda/common.cuh"

namespace graft::cuda {

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

}  // namespace graft::cuda
