// Small helpers shared by the operators' CPU versions.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/contracts.h"
#include "kernels/cpu/loops.h"

namespace graft::ops {

// fp64 runs as the composite: it is the reference others are compared with, so it takes no shortcuts.
inline bool hasLoops(const at::Tensor& tensor) { return tensor.scalar_type() != at::kDouble; }

inline Scalar scalarOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return Scalar::BF16;
    case at::kHalf:
      return Scalar::F16;
    default:
      return Scalar::F32;
  }
}

// Contiguous; without a call into ATen where it is so already.
inline at::Tensor dense(const at::Tensor& tensor) { return tensor.is_contiguous() ? tensor : tensor.contiguous(); }

// A contiguous fp32 copy of a small vector, or the vector itself.
inline at::Tensor floats(const OptionalTensor& tensor) {
  if (!given(tensor)) return {};
  return dense(tensor->scalar_type() == at::kFloat ? *tensor : tensor->to(at::kFloat));
}

inline const float* floatsOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

// How many rows a thread should at least get: below about 16k elements, waking a thread costs more than it saves.
inline int64_t grain(int64_t columns) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns)); }

// This thread's own memory; valid until this thread's next call.
inline float* scratch(int64_t count) {
  thread_local std::vector<float> memory;
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(count);
  return memory.data();
}

// fp32 for the 16-bit types, the type itself otherwise: what composites compute in.
inline at::ScalarType computeType(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace graft::ops
