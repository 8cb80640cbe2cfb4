// Small helpers shared by the operators' CPU versions.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/strides.h>

#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/ops/contracts.h"

namespace graft::ops {

// Whether the loops support a tensor's dtype. fp64 runs as the composite: it is the reference that other types are
// compared with.
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

// The tensor made contiguous; it makes no ATen call where the tensor is contiguous already.
inline at::Tensor dense(const at::Tensor& tensor) { return tensor.is_contiguous() ? tensor : tensor.contiguous(); }

// The tensor in a memory format, with the strides that a new tensor of that format has. (`contiguous` leaves those of
// dimensions of size 1 as they are.)
inline at::Tensor laid(const at::Tensor& tensor, at::MemoryFormat format) {
  const at::Tensor there = tensor.contiguous(format);
  if (there.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return there;
  const at::IntArrayRef sizes = there.sizes();
  at::DimVector strides = c10::contiguous_strides(sizes);
  if (format == at::MemoryFormat::ChannelsLast) strides = at::DimVector(c10::get_channels_last_strides_2d(sizes));
  if (format == at::MemoryFormat::ChannelsLast3d) strides = at::DimVector(c10::get_channels_last_strides_3d(sizes));
  return there.strides() == at::IntArrayRef(strides) ? there : there.as_strided(sizes, strides);
}

// A contiguous fp32 copy of a small vector, or the vector itself.
inline at::Tensor floats(const OptionalTensor& tensor) {
  if (!given(tensor)) return {};
  return dense(tensor->scalar_type() == at::kFloat ? *tensor : tensor->to(at::kFloat));
}

inline const float* floatsOf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

// The least number of rows for a thread: below about 16k elements, waking a thread costs more than it saves.
inline int64_t grain(int64_t columns) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns)); }

// Memory for `count` floats of the calling thread; valid until the thread's next call.
inline float* scratch(int64_t count) {
  thread_local std::vector<float> memory;
  if (static_cast<int64_t>(memory.size()) < count) memory.resize(count);
  return memory.data();
}

// The dtype that composites compute in: fp64 for fp64, otherwise fp32.
inline at::ScalarType computeType(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace graft::ops
