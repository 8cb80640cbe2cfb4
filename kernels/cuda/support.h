#pragma once
// What the CUDA operators share on LibTorch's side: options, dtypes, error reports, tensors as rows, masks.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda/launchers.h"
#include "kernels/ops/contracts.h"

namespace graft::cuda {

using ops::given;
using ops::OptionalTensor;

// Options of the calling thread, set by graft::cuda_options or the environment (GRAFT_PDL=0, GRAFT_AUTOTUNE=0).
struct Options {
  bool pdl = true;
  // A promise of the caller, who runs a fixed graph: no kernel in flight writes weights and biases, so a kernel may
  // load them before the previous one has completed.
  bool constantWeights = false;
  bool autotune = true;
};
Options& options();

inline Dtype dtypeOf(const char* op, const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return Dtype::kFloat;
    case at::kHalf:
      return Dtype::kHalf;
    case at::kBFloat16:
      return Dtype::kBfloat16;
    default:
      TORCH_CHECK(false, "graft::", op, ": ", t.scalar_type(),
                  " on CUDA is not supported; use float32, float16 or bfloat16, or run on the CPU");
  }
}

/// Whether the kernels for Hopper can run: the current GPU has compute capability 9.0, and this library has sm_90a
/// code.
bool hopper();

/// Whether fp32 products may use TF32. (at::Context::allowTF32CuBLAS() throws once the newer fp32_precision switch is
/// used.)
bool usesTf32();

/// Whether a CUDA graph is being captured on the current stream.
bool isCapturing() noexcept;

/// Whether kernels are launched with PDL. Only Hopper code waits for the previous kernel, so other GPUs do without it.
inline bool usesPdl() { return options().pdl && hopper(); }

/// Throws c10::Error where a launch failed.
inline void report(const char* op, cudaError_t status) {
  TORCH_CHECK(status == cudaSuccess, "graft::", op, ": ", cudaGetErrorName(status), ": ", cudaGetErrorString(status));
}

inline const void* pointer(const OptionalTensor& t) { return given(t) ? t->const_data_ptr() : nullptr; }
inline OptionalTensor dense(const OptionalTensor& t) {
  return given(t) ? OptionalTensor(t->contiguous()) : OptionalTensor();
}

// A tensor as rows of its last dimension: the last stride is 1, and one row stride (in elements) serves all leading
// dimensions. It is a copy only where the tensor's strides do not allow that.
struct Rows {
  at::Tensor tensor;
  int64_t rows = 1, columns = 0, stride = 0;
};
Rows asRows(const at::Tensor& t);

// A mask broadcast to `sizes` (4 dimensions), as kernels take it. `kept` holds the tensor that it points into.
MaskArg maskArg(const OptionalTensor& mask, at::IntArrayRef sizes, at::Tensor& kept);

}  // namespace graft::cuda
