// What the CPU and the CUDA versions of graft::random_states and graft::dropout_mask share: their checks.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace graft::ops {

inline void checkRandomStates(at::IntArrayRef blocks) {
  for (const int64_t b : blocks)
    TORCH_CHECK_VALUE(b >= 0, "graft::random_states: a draw takes ", b, " blocks; at least 0 are expected");
}

inline void checkDropoutMask(const at::Tensor& states, int64_t row, at::IntArrayRef size, double p, int64_t vector,
                             int64_t threads) {
  TORCH_CHECK_VALUE(states.dim() == 2 && states.size(1) == 2 && states.scalar_type() == at::kLong,
                    "graft::dropout_mask: states must be int64 of [draws, 2], not ", states.scalar_type(), " of ",
                    states.sizes());
  TORCH_CHECK_VALUE(row >= 0 && row < states.size(0), "graft::dropout_mask: there are ", states.size(0),
                    " draws, and none has number ", row);
  for (const int64_t n : size) TORCH_CHECK_VALUE(n >= 0, "graft::dropout_mask: ", n, " is no size");
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "graft::dropout_mask: p is ", p, ", and must lie between 0 and 1");
  TORCH_CHECK_VALUE(vector >= 4 && vector % 4 == 0 && threads >= 1,
                    "graft::dropout_mask: vector must be a multiple of 4, and threads positive");
}

}  // namespace graft::ops
