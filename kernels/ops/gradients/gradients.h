// The operators' trained versions: what runs instead of an operator when an input requires a gradient and gradients are
// being recorded. They take what the operator takes, and give its results with their derivatives in autograd's graph.
// fp64 is not among what they take: it runs as the composite.
//
// Each stands for operators that a tracer sees: graft::add_layer_norm_training and graft::add_layer_norm_backward, for
// example. What no kernel of ours makes faster is left to PyTorch's own derivatives.
#pragma once

#include <string_view>
#include <tuple>

#include "kernels/ops/contracts.h"

namespace graft::ops {

at::Tensor linearTrained(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         std::string_view activation, const OptionalTensor& residual);
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkvTrained(const at::Tensor& x, const at::Tensor& weight,
                                                          const OptionalTensor& bias, int64_t heads, int64_t kvHeads);
at::Tensor batchedLinearTrained(const at::Tensor& x, const at::Tensor& weight);
at::Tensor addLayerNormTrained(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps, const OptionalTensor& inputBias);
std::tuple<at::Tensor, at::Tensor> addRmsNormTrained(const at::Tensor& x, const OptionalTensor& residual,
                                                     const OptionalTensor& weight, double eps);
at::Tensor linearAddLayerNormTrained(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                     const at::Tensor& residual, const OptionalTensor& normWeight,
                                     const OptionalTensor& normBias, double eps);
at::Tensor embeddingLayerNormTrained(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight,
                                     const OptionalTensor& bias, double eps);
at::Tensor attentionTrained(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                            std::optional<double> scale, bool causal);
at::Tensor maskedSoftmaxTrained(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim);
std::tuple<at::Tensor, at::Tensor> rotaryTrained(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                                 const at::Tensor& sin);
at::Tensor swigluTrained(const at::Tensor& gate, const at::Tensor& up);

}  // namespace graft::ops
