#pragma once
// What the kernels for convolutions share: one call, and cuDNN's choice among its own.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/max.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/tuning.h"
#include "kernels/cuda/tuning/tuning_budget.h"

namespace graft::cuda {

/// What one call computes. Checked.
struct ConvCall {
  const char* op;
  const at::Tensor &x, &weight;
  const OptionalTensor &bias, &residual;
  at::IntArrayRef stride, padding, dilation;
  int64_t groups = 1;
  ConvActivation activation = ConvActivation::kNone;
  double alpha = 0, beta = 0;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;  ///< of the result

  std::vector<int64_t> resultSizes() const {
    std::vector<int64_t> out;
    for (const c10::SymInt& n : ops::convShape(op, x, weight, stride, padding, dilation))
      out.push_back(n.guard_int(__FILE__, __LINE__));
    return out;
  }
  /// Of half types, with channels last, and in one group: what kernels for tensor cores take.
  bool isOfHalfImages() const {
    return x.dim() == 4 && groups == 1 && x.numel() > 0 && dtypeOf(op, x) != Dtype::kFloat &&
           format == at::MemoryFormat::ChannelsLast;
  }
  bool hasEpilogue() const { return given(bias) || given(residual) || activation != ConvActivation::kNone; }
  /// Not one that broadcasts.
  bool hasWholeResidual() const { return given(residual) && residual->sizes() == at::IntArrayRef(resultSizes()); }
};

// While it lives, cuDNN times its plans and remembers the fastest, if tuning is allowed. cuDNN does so when it first
// sees a convolution, so the order is the model's; half of the budget is left for products. The switch is global to the
// process: with several threads, the first turns it on and the last restores it.
class CudnnBenchmark {
 public:
  CudnnBenchmark() : on_(options().autotune && !isCapturing() && !tuningBudget().isSpent(0.5)) {
    if (!on_) return;
    const std::lock_guard lock(mutex);
    if (users++ > 0) return;
    before = at::globalContext().benchmarkCuDNN();
    at::globalContext().setBenchmarkCuDNN(true);
  }
  ~CudnnBenchmark() {
    if (!on_) return;
    // A convolution that cuDNN knows already takes the host some microseconds.
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds > 1e-3) tuningBudget().add(seconds);
    const std::lock_guard lock(mutex);
    if (--users == 0) at::globalContext().setBenchmarkCuDNN(before);
  }
  CudnnBenchmark(const CudnnBenchmark&) = delete;
  CudnnBenchmark& operator=(const CudnnBenchmark&) = delete;

 private:
  static inline std::mutex mutex;
  static inline int users = 0;
  static inline bool before = false;
  const bool on_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The call's convolution alone, by PyTorch, of an image and a filter that lie in memory as they should.
inline at::Tensor convolve(const ConvCall& c, const at::Tensor& image, const at::Tensor& filter) {
  const std::vector<int64_t> outputPadding(c.stride.size(), 0);
  return at::convolution(image, filter, {}, c.stride, c.padding, c.dilation, false, outputPadding, c.groups);
}

/// Whether both are the same but for rounding. Elements that are no numbers do not agree.
inline bool agree(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kFloat), y = b.to(at::kFloat);
  const double tolerance = a.scalar_type() == at::kHalf ? 1e-2 : 4e-2;
  return (x - y).abs().max().item().toDouble() <= tolerance * (y.abs().max().item().toDouble() + 1e-3);
}

}  // namespace graft::cuda
