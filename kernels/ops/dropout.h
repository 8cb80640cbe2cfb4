// What all versions of graft::random_states and graft::dropout_mask begin with: their checks, and the result, which is
// not filled yet.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace graft::ops {

inline at::Tensor emptyStates(const at::Tensor& like, at::IntArrayRef blocks) {
  for (const int64_t b : blocks)
    TORCH_CHECK_VALUE(b >= 0, "graft::random_states: a draw takes ", b, " blocks; at least 0 are expected");
  return at::empty({static_cast<int64_t>(blocks.size()), 2}, like.options().dtype(at::kLong));
}

inline at::Tensor emptyMask(const at::Tensor& states, int64_t row, at::IntArrayRef size, double p, int64_t vector,
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
  return at::empty(size, states.options().dtype(at::kBool));
}

}  // namespace graft::ops
