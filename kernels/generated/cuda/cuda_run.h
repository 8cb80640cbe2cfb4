// What runs for one kind of call of a group on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace graft::ops {

class CudaRun {
 public:
  /// For inputs of the same dtypes, sizes, strides and alignment on the same GPU. Launches on the current stream and
  /// does not wait, so a CUDA graph may capture it. Throws c10::Error where a launch fails.
  virtual std::vector<at::Tensor> run(at::TensorList inputs) const = 0;
  virtual ~CudaRun() = default;

 protected:
  CudaRun() = default;
  CudaRun(const CudaRun&) = default;
  CudaRun& operator=(const CudaRun&) = default;
};

}  // namespace graft::ops
