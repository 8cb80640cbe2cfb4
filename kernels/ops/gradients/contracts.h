// Checks of the backward operators' inputs, which their ATen, CUDA and Meta versions make, as kernels/ops/contracts.h
// has them for the operators themselves.
#pragma once

#include <array>

#include "kernels/ops/contracts.h"

namespace graft::ops {

inline void checkSameShape(const char* op, const OptionalTensor& tensor, const char* what, const at::Tensor& like,
                           const char* likeName) {
  if (!given(tensor)) return;
  checkLike(op, like, likeName, tensor, what);
  TORCH_CHECK(tensor->sym_sizes() == like.sym_sizes(), "graft::", op, ": ", what, " ", tensor->sym_sizes(), " and ",
              likeName, " ", like.sym_sizes(), " differ in shape");
}

inline void checkLinearBackward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                const OptionalTensor& preactivation, std::string_view activation) {
  const char* op = "linear_backward";
  checkLinear(op, x, weight, {});
  checkActivation(activation);
  checkLike(op, x, "x", grad, "grad");
  const std::vector<c10::SymInt> shape = linearShape(x, weight);
  TORCH_CHECK(grad.sym_sizes() == c10::SymIntArrayRef(shape), "graft::", op, ": grad ", grad.sym_sizes(),
              " should have the output's shape ", c10::SymIntArrayRef(shape));
  TORCH_CHECK(given(preactivation) == (activation != "none"), "graft::", op,
              ": preactivation is expected with an activation, and only then");
  checkSameShape(op, preactivation, "preactivation", grad, "grad");
}

// Statistics of a norm are fp32, or fp64 where its input is.
inline at::ScalarType statisticsType(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// A number for each row: the sizes without the last.
inline c10::SymIntArrayRef rowsOf(const at::Tensor& x) { return x.sym_sizes().slice(0, x.dim() - 1); }

inline void checkNormBackward(const char* op, const at::Tensor& x, const OptionalTensor& grad,
                              const OptionalTensor& mean, const at::Tensor& rstd) {
  checkSameShape(op, grad, "grad", x, "x");
  for (const OptionalTensor& numbers : {mean, OptionalTensor(rstd)}) {
    TORCH_CHECK(!given(numbers) || (numbers->sym_sizes() == rowsOf(x) && numbers->scalar_type() == statisticsType(x)),
                "graft::", op, ": mean and rstd should be ", statisticsType(x), " ", rowsOf(x),
                ", a number for each row");
  }
}

inline void checkRmsNormBackward(const OptionalTensor& grad, const OptionalTensor& gradSum, const at::Tensor& sum,
                                 const at::Tensor& rstd, const OptionalTensor& weight) {
  const char* op = "add_rms_norm_backward";
  checkNorm(op, sum, {}, weight, {}, {});
  checkNormBackward(op, sum, grad, {}, rstd);
  checkNormBackward(op, sum, gradSum, {}, rstd);
}

inline void checkSwigluBackward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  checkSwiglu(gate, up);
  checkSameShape("swiglu_backward", grad, "grad", gate, "gate");
}

inline void checkSoftmaxBackward(const at::Tensor& grad, const at::Tensor& out, int64_t dim) {
  checkSoftmax(out, {}, dim);
  checkSameShape("masked_softmax_backward", grad, "grad", out, "out");
}

}  // namespace graft::ops
