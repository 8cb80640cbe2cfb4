// The derivatives of graft::linear, qkv_projection, batched_linear and linear_add_layer_norm.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <torch/library.h>

#include <array>
#include <string>

#include "kernels/ops/activation.h"
#include "kernels/ops/gradients/contracts.h"
#include "kernels/ops/gradients/derivative.h"
#include "kernels/ops/gradients/gradients.h"

namespace graft::ops {
namespace {

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                          const OptionalTensor&);
using LinearBackward = Triple(const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                              std::string_view, std::array<bool, 3>);
using AddLayerNorm = at::Tensor(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                double, const OptionalTensor&);

at::Tensor activationBackward(const at::Tensor& grad, const at::Tensor& z, Activation activation) {
  switch (activation) {
    case Activation::Relu:
      return at::threshold_backward(grad, z, 0);
    case Activation::Gelu:
      return at::gelu_backward(grad, z);
    case Activation::GeluTanh:
      return at::gelu_backward(grad, z, "tanh");
    case Activation::Silu:
      return at::silu_backward(grad, z);
    default:
      return grad;
  }
}

Triple linearBackward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                      const OptionalTensor& preactivation, std::string_view activation, std::array<bool, 3> wanted) {
  checkLinearBackward(grad, x, weight, preactivation, activation);
  const at::Tensor dz =
      given(preactivation) ? activationBackward(grad, *preactivation, activationOf(activation)) : grad;
  c10::SymInt rows = 1;
  for (int64_t d = 0; d + 1 < x.dim(); ++d) rows = rows * x.sym_size(d);
  const at::Tensor flat = dz.reshape_symint({rows, weight.sym_size(0)});
  const at::Tensor none = at::empty({0}, x.options());
  return {wanted[0] ? at::mm(flat, weight).reshape_symint(x.sym_sizes()) : none,
          wanted[1] ? at::mm(flat.t(), x.reshape_symint({rows, weight.sym_size(1)})) : none.clone(),
          wanted[2] ? flat.sum(0) : none.clone()};
}

Triple linearBackwardMeta(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                          const OptionalTensor& preactivation, std::string_view activation,
                          std::array<bool, 3> wanted) {
  checkLinearBackward(grad, x, weight, preactivation, activation);
  const auto made = [&](bool isWanted, c10::SymIntArrayRef sizes) {
    return isWanted ? at::empty_symint(sizes, x.options()) : at::empty({0}, x.options());
  };
  const c10::SymInt biasSize[] = {weight.sym_size(0)};
  return {made(wanted[0], x.sym_sizes()), made(wanted[1], weight.sym_sizes()), made(wanted[2], biasSize)};
}

// The product with bias and, where there is no activation, the residual. The CPU's own version would pack a weight that
// the next step changes.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                   const OptionalTensor& residual) {
  if (x.is_cuda()) {
    static const auto linear = operatorNamed<Linear>("graft::linear");
    return linear.call(x, weight, bias, "none", residual);
  }
  const at::Tensor out = at::linear(x, weight, bias);
  return (given(residual) ? out + *residual : out).contiguous();
}

}  // namespace

at::Tensor linearTrained(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         std::string_view activation, const OptionalTensor& residual) {
  if (widerThan(x, residual)) return linearTrained(withRowsOf(residual, x), weight, bias, activation, residual);
  checkLinear("linear", x, weight, bias);
  checkActivation(activation);
  checkLike("linear", x, "x", residual, "residual");
  if (given(residual)) checkBroadcast("linear", residual, "residual", linearShape(x, weight), "the output");
  const Activation which = activationOf(activation);
  Derivative rule{.name = "linear", .unread = {3}};
  rule.forward = [which](const Tensors& in, Tensors& kept) {
    const bool plain = which == Activation::None;
    const OptionalTensor residual = orNothing(in[3]);
    const at::Tensor z = product(in[0], in[1], orNothing(in[2]), plain ? residual : OptionalTensor());
    if (plain) return Tensors{z};
    at::Tensor out = activated(z, which);
    // ReLU's derivative can be told from its result, which is saved anyway where a product follows.
    kept.push_back(which == Activation::Relu && !given(residual) ? out : z);
    if (given(residual)) out = out + *residual;
    return Tensors{out};
  };
  const std::vector<c10::SymInt> residualSizes =
      given(residual) ? residual->sym_sizes().vec() : std::vector<c10::SymInt>();
  rule.backward = [which, name = std::string(activation), residualSizes](
                      const Tensors& in, const Tensors& kept, const Tensors& gradients, const Wanted& wanted) {
    Tensors found(4);
    if (wanted[3]) found[3] = at::sum_to(gradients[0], c10::SymIntArrayRef(residualSizes));
    if (!wanted[0] && !wanted[1] && !wanted[2]) return found;
    if (at::GradMode::is_enabled()) {
      const Tensors first = partials(
          [which](const Tensors& i) { return Tensors{activated(at::linear(i[0], i[1], orNothing(i[2])), which)}; },
          {in[0], in[1], in[2]}, gradients);
      std::copy(first.begin(), first.end(), found.begin());
      return found;
    }
    static const auto backward = operatorNamed<LinearBackward>("graft::linear_backward");
    std::tie(found[0], found[1], found[2]) =
        backward.call(gradients[0], in[0], in[1], kept.empty() ? OptionalTensor() : OptionalTensor(kept[0]), name,
                      {wanted[0], wanted[1], wanted[2]});
    return found;
  };
  return differentiated({x, weight, orNone(bias), orNone(residual)}, std::move(rule))[0];
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkvTrained(const at::Tensor& x, const at::Tensor& weight,
                                                          const OptionalTensor& bias, int64_t heads, int64_t kvHeads) {
  checkQkv(x, weight, bias, heads, kvHeads);
  static const auto linear = operatorNamed<Linear>("graft::linear");
  const at::Tensor all = linear.call(x, weight, bias, "none", {});
  const c10::SymInt size = weight.sym_size(0) / (heads + 2 * kvHeads);
  const at::Tensor split = all.view_symint({x.sym_size(0), x.sym_size(1), heads + 2 * kvHeads, size}).transpose(1, 2);
  return {split.narrow(1, 0, heads), split.narrow(1, heads, kvHeads), split.narrow(1, heads + kvHeads, kvHeads)};
}

at::Tensor batchedLinearTrained(const at::Tensor& x, const at::Tensor& weight) {
  checkBatchedLinear("batched_linear", x, weight);
  return at::matmul(x, weight).contiguous();
}

at::Tensor linearAddLayerNormTrained(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                                     const at::Tensor& residual, const OptionalTensor& normWeight,
                                     const OptionalTensor& normBias, double eps) {
  if (widerThan(x, residual))
    return linearAddLayerNormTrained(withRowsOf(residual, x), weight, bias, residual, normWeight, normBias, eps);
  checkLinearNorm("linear_add_layer_norm", x, weight, bias, residual, normWeight, normBias);
  static const auto linear = operatorNamed<Linear>("graft::linear");
  static const auto norm = operatorNamed<AddLayerNorm>("graft::add_layer_norm");
  // The norm adds the bias, and sums its gradient on the way back.
  return norm.call(linear.call(x, weight, {}, "none", {}), residual, normWeight, normBias, eps, bias);
}

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def(
      "linear_backward(Tensor grad, Tensor x, Tensor weight, Tensor? preactivation, str activation, bool[3] wanted) -> "
      "(Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.impl("linear_backward", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &linearBackward));
  m.impl("linear_backward", torch::dispatch(c10::DispatchKey::Meta, &linearBackwardMeta));
}

}  // namespace graft::ops
