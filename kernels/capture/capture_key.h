// CaptureKey: what a captured run depends on besides the numbers in its tensors. Two calls with equal keys can share a
// capture.
//
//   captureKey({ids, mask}, /*device=*/0) == captureKey({otherIds, otherMask}, 0)     // same dtypes, sizes, strides
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace graft {

using CaptureKey = std::vector<int64_t>;

/// Dtypes, sizes (in elements) and strides of the tensors in the inputs' pytrees, and the values of all other leaves.
/// Throws CaptureError where a tensor is not an ordinary one on CUDA device `device`, or a leaf has a type whose values
/// cannot be compared.
CaptureKey captureKey(const std::vector<c10::IValue>& inputs, int device);

}  // namespace graft
