#pragma once
// What the CUDA operators share on LibTorch's side: dtypes, error reports, options.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/contracts.h"
#include "kernels/cuda/launchers.h"

namespace graft::cuda {

using ops::given;
using ops::OptionalTensor;

// Of the calling thread; set by graft::cuda_options or the environment (GRAFT_PDL=0, GRAFT_AUTOTUNE=0).
struct Options {
  bool pdl = true;
  // Promise by whoever runs a fixed graph: weights and biases are written by no kernel in flight, so a kernel may fetch
  // them before the one ahead of it has finished.
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

// Whether the kernels for Hopper run: on compute capability 9.0, if machine code for it (sm_90a) was built.
bool hopper();

// Whether kernels are launched before the one ahead of them has ended (PDL). Only code for Hopper knows to wait for it.
/// Whether products of fp32 may be rounded to TF32. (allowTF32CuBLAS() throws once torch.backends' newer switch is
/// used.)
bool usesTf32();

/// Whether a CUDA graph is being captured on the current stream.
bool capturing() noexcept;

inline bool usesPdl() { return options().pdl && hopper(); }

inline void report(const char* op, cudaError_t status) {
  TORCH_CHECK(status == cudaSuccess, "graft::", op, ": ", cudaGetErrorName(status), ": ", cudaGetErrorString(status));
}

inline const void* pointer(const OptionalTensor& t) { return given(t) ? t->const_data_ptr() : nullptr; }
inline OptionalTensor dense(const OptionalTensor& t) {
  return given(t) ? OptionalTensor(t->contiguous()) : OptionalTensor();
}

// A tensor seen as rows of its last dimension: one row stride for all leading dimensions, last stride 1. Copies only
// where its strides do not allow that.
struct Rows {
  at::Tensor tensor;
  int64_t rows = 1, columns = 0, stride = 0;
};
Rows asRows(const at::Tensor& t);

// The strides of a mask broadcast to `sizes` (4 dimensions); `kept` keeps a converted copy alive.
MaskArg maskArg(const OptionalTensor& mask, at::IntArrayRef sizes, at::Tensor& kept);

}  // namespace graft::cuda
