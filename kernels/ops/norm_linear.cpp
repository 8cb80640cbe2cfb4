// graft::linear_norm_linear and graft::attention_norm_linear
#include <ATen/ops/empty.h>

#include <string_view>
#include <tuple>

#include "kernels/ops/contracts.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

constexpr OperatorInfo linearInfo{
    "linear_norm_linear",
    "linear_norm_linear(Tensor x, Tensor weight, Tensor? bias, Tensor residual, Tensor? norm_weight, Tensor? "
    "norm_bias, "
    "Tensor next_weight, Tensor? next_bias, float eps=1e-05, *, str activation=\"none\") -> (Tensor normed, Tensor "
    "out)",
    "normed = layer_norm(x weight^T + bias + residual) * norm_weight + norm_bias over the last dimension, and out = "
    "activation(normed next_weight^T + next_bias): from one block of a transformer into the next. For at most 32 rows "
    "on Hopper the "
    "norm is part of the second product, whose weights are scaled by norm_weight and rounded once in its place; "
    "otherwise it is "
    "linear_add_layer_norm and linear. The sum before the norm is rounded once to the type. Both outputs are "
    "contiguous.",
    "as linear and add_layer_norm", "row_major"};

constexpr OperatorInfo attentionInfo{
    "attention_norm_linear",
    "attention_norm_linear(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor weight, Tensor? bias, Tensor residual, "
    "Tensor? norm_weight, Tensor? norm_bias, Tensor next_weight, Tensor? next_bias, float eps=1e-05, *, float? "
    "scale=None, "
    "bool causal=False, str activation=\"none\") -> (Tensor normed, Tensor out)",
    "linear_norm_linear of attention(q, k, v, mask) with its heads side by side, [batch, length, heads * head size]. "
    "For up to 16 queries "
    "and 32 keys on Hopper attention and the first product are one kernel.",
    "as attention, linear and add_layer_norm", "row_major"};

using Pair = std::tuple<at::Tensor, at::Tensor>;

using Attention = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                             std::optional<double>, bool);
using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                          const OptionalTensor&);
using LinearAddLayerNorm = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, const at::Tensor&,
                                      const OptionalTensor&, const OptionalTensor&, double);

template <class Signature>
auto operatorNamed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// The operators that it combines: they support gradients and every device.
Pair linearComposite(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                     const at::Tensor& residual, const OptionalTensor& normWeight, const OptionalTensor& normBias,
                     const at::Tensor& nextWeight, const OptionalTensor& nextBias, double eps,
                     std::string_view activation) {
  if (widerThan(x, residual))
    return linearComposite(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, nextWeight, nextBias,
                           eps, activation);
  checkLinearNorm(linearInfo.name, x, weight, bias, residual, normWeight, normBias);
  checkNormLinear(linearInfo.name, x, weight, nextWeight, nextBias);
  static const auto linearAddLayerNorm = operatorNamed<LinearAddLayerNorm>("graft::linear_add_layer_norm");
  static const auto linear = operatorNamed<Linear>("graft::linear");
  const at::Tensor normed = linearAddLayerNorm.call(x, weight, bias, residual, normWeight, normBias, eps);
  return {normed, linear.call(normed, nextWeight, nextBias, activation, {})};
}

Pair attentionComposite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                        const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
                        const OptionalTensor& normWeight, const OptionalTensor& normBias, const at::Tensor& nextWeight,
                        const OptionalTensor& nextBias, double eps, std::optional<double> scale, bool causal,
                        std::string_view activation) {
  checkAttentionNormLinear(q, k, v, mask, weight, bias, residual, normWeight, normBias, nextWeight, nextBias);
  static const auto attention = operatorNamed<Attention>("graft::attention");
  const at::Tensor heads = attention.call(q, k, v, mask, scale, causal);
  const at::Tensor x = heads.transpose(1, 2).reshape_symint({heads.sym_size(0), q.sym_size(2), weight.sym_size(1)});
  return linearComposite(x, weight, bias, residual, normWeight, normBias, nextWeight, nextBias, eps, activation);
}

Pair linearMeta(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
                const OptionalTensor& normWeight, const OptionalTensor& normBias, const at::Tensor& nextWeight,
                const OptionalTensor& nextBias, double eps, std::string_view activation) {
  if (widerThan(x, residual))
    return linearMeta(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, nextWeight, nextBias, eps,
                      activation);
  checkLinearNorm(linearInfo.name, x, weight, bias, residual, normWeight, normBias);
  checkNormLinear(linearInfo.name, x, weight, nextWeight, nextBias);
  checkActivation(activation);
  const at::Tensor normed = at::empty_symint(linearShape(x, weight), x.options());
  return {normed, at::empty_symint(linearShape(normed, nextWeight), x.options())};
}

Pair attentionMeta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                   const at::Tensor& weight, const OptionalTensor& bias, const at::Tensor& residual,
                   const OptionalTensor& normWeight, const OptionalTensor& normBias, const at::Tensor& nextWeight,
                   const OptionalTensor& nextBias, double, std::optional<double>, bool, std::string_view activation) {
  checkAttentionNormLinear(q, k, v, mask, weight, bias, residual, normWeight, normBias, nextWeight, nextBias);
  checkActivation(activation);
  const at::Tensor normed = at::empty_symint(attentionNormShape(q, k, v, mask, weight, residual), q.options());
  return {normed, at::empty_symint(linearShape(normed, nextWeight), q.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  defineOperator<linearInfo, linearComposite>(m, linearComposite, linearMeta);
  defineOperator<attentionInfo, attentionComposite>(m, attentionComposite, attentionMeta);
}

}  // namespace graft::ops
