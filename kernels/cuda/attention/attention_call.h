#pragma once
// From tensors to the arguments of the attention kernels.
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/cuda/support.h"

namespace graft::cuda {

// The arguments for q, k and v with four dimensions that have passed checkAttention, and the tensors that must live
// until the launch. args.out and args.os are not set.
struct AttentionCall {
  at::Tensor q, k, v, mask;
  AttentionArgs args;

  AttentionCall(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                std::optional<double> scale, bool causal);
};

// graft::attention on CUDA.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                     std::optional<double> scale, bool causal);

}  // namespace graft::cuda
