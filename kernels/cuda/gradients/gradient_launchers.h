#pragma once
// The launchers of the backward kernels, in the manner of launchers.h. Sums over rows (the gradients of biases and of
// norms' weights) take two passes: each of `parts` blocks of rows writes its own sums, and launchSumParts adds them in
// a fixed order. So results do not differ from run to run.
#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// norm_training.cu: a norm that keeps its statistics, a number for each row, for the backward pass.
struct NormTrainingArgs {
  NormArgs norm;
  float* mean = nullptr;  // null for RMSNorm
  float* rstd = nullptr;
};
cudaError_t launchNormTraining(const NormTrainingArgs& a, cudaStream_t stream);

// norm_backward.cu: the gradient of v = x + inputBias + residual, of which norm(v) * weight + bias was computed, and
// with `partials` [3][parts][n] the parts of the sums over rows for weight, bias and inputBias. Null pointers: not
// there, or not wanted.
struct NormBackwardArgs {
  const void* grad = nullptr;     // [rows, n]
  const void* gradSum = nullptr;  // [rows, n] or null, added to dsum
  const void* x = nullptr;
  const void* residual = nullptr;
  const void* inputBias = nullptr;  // [n]
  const void* weight = nullptr;     // [n]
  const float* mean = nullptr;      // [rows]; null for RMSNorm
  const float* rstd = nullptr;      // [rows]
  void* dsum = nullptr;             // [rows, n], contiguous
  float* partials = nullptr;
  int parts = 0;  // blocks of the kernel
  bool inputBiasSums = false;
  int64_t rows = 0, n = 0, ldg = 0, lds = 0, ldx = 0, ldr = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchNormBackward(const NormBackwardArgs& a, cudaStream_t stream);

// sums.cu: dz = grad * activation'(z), and with `partials` [parts][n] the parts of its sums over rows. For kRelu z may
// be the result. Without an activation only sums are computed, from grad.
struct ActivationBackwardArgs {
  const void* grad = nullptr;  // [rows, n]
  const void* z = nullptr;     // [rows, n]
  void* dz = nullptr;          // [rows, n], contiguous
  float* partials = nullptr;
  int parts = 0;
  int64_t rows = 0, n = 0, ldg = 0, ldz = 0;
  Activation activation = Activation::kNone;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchActivationBackward(const ActivationBackwardArgs& a, cudaStream_t stream);

// sums.cu: out[s][c] = the sum over p of partials[s][p][c], for each `out` that is not null.
struct SumPartsArgs {
  const float* partials = nullptr;
  void* out[3] = {};
  int sums = 1, parts = 0;
  int64_t n = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSumParts(const SumPartsArgs& a, cudaStream_t stream);

// pointwise_backward.cu: dgate and dup [rows, n], contiguous
struct SwigluBackwardArgs {
  const void *grad = nullptr, *gate = nullptr, *up = nullptr;
  void *dgate = nullptr, *dup = nullptr;
  int64_t rows = 0, n = 0, ldd = 0, ldg = 0, ldu = 0;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSwigluBackward(const SwigluBackwardArgs& a, cudaStream_t stream);

// pointwise_backward.cu: the transpose of launchRotary's turn; x is the gradient. `interleaved` is not supported.
cudaError_t launchRotaryBackward(const RotaryArgs& a, cudaStream_t stream);

// pointwise_backward.cu: out = (grad - sum(grad * y)) * y * scale over rows of n
struct SoftmaxBackwardArgs {
  const void *grad = nullptr, *y = nullptr;
  void* out = nullptr;
  int64_t rows = 0, n = 0, ldg = 0, ldy = 0;
  float scale = 1;
  bool pdl = true;
  Dtype dtype = Dtype::kHalf;
};
cudaError_t launchSoftmaxBackward(const SoftmaxBackwardArgs& a, cudaStream_t stream);

}  // namespace graft::cuda
