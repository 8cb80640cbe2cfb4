#pragma once
// A convolution with bias, residual and activation as one kernel of cuDNN, which cuDNN may compile at run time.
//
//   std::unique_ptr<CudnnConvolution> c = CudnnConvolution::make(problem, handle);    // null: cuDNN has no such kernel
//   if (c && c->build(0)) c->run(0, {x, weight, bias, residual, y}, workspace, handle);
//
// Without LibTorch. cuDNN is the library that PyTorch has loaded.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

/// activation(convolution(x, weight) + bias + residual) over two spatial dimensions. Sizes and strides are in elements,
/// in the order batch, channels, height, width.
struct ConvProblem {
  Dtype dtype = Dtype::kHalf;  ///< of all tensors; products are added in fp32
  std::vector<int64_t> x, xStrides, weight, weightStrides, y, yStrides;
  std::vector<int64_t> residualStrides;  ///< empty: none. It has the sizes of y.
  bool hasBias = false;                  ///< one number for each channel, contiguous
  std::vector<int64_t> stride, padding, dilation;
  ConvActivation activation = ConvActivation::kNone;
  double alpha = 0, beta = 0;  ///< of hardtanh: the bounds; of leaky_relu: alpha is the slope

  /// Printable, without spaces: equal for equal problems.
  std::string key() const;
};

struct ConvTensors {
  const void *x = nullptr, *weight = nullptr, *bias = nullptr, *residual = nullptr;
  void* y = nullptr;
};

class CudnnConvolution {
 public:
  /// `handle`: a cudnnHandle_t. Null where this build has no cuDNN frontend, or cuDNN refuses the problem.
  static std::unique_ptr<CudnnConvolution> make(const ConvProblem&, void* handle);
  virtual ~CudnnConvolution() = default;

  /// How many plans cuDNN proposes, the best by its heuristics first.
  virtual int plans() const = 0;
  /// Makes the plan's kernel: up to a second. False where it cannot be made.
  virtual bool build(int plan) = 0;
  virtual size_t workspaceBytes(int plan) const = 0;
  /// On the handle's stream. Of a plan that was built.
  virtual bool run(int plan, const ConvTensors&, void* workspace, void* handle) = 0;
};

/// 0 where there is none.
size_t cudnnVersion();

}  // namespace graft::cuda
