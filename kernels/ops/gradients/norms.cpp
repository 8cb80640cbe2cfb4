// The derivatives of graft::add_layer_norm, add_rms_norm and embedding_layer_norm.
//
// A norm keeps the mean and the reciprocal deviation of each row, in fp32. The layer norm's sum x + input_bias +
// residual is not written in the forward pass: the backward pass adds again, which costs as much as reading the sum and
// leaves fewer tensors alive.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/contracts.h"
#include "kernels/ops/gradients/derivative.h"
#include "kernels/ops/gradients/gradients.h"

namespace graft::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using LayerNormTraining = Triple(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                 double, const OptionalTensor&);
using LayerNormBackward = Four(const at::Tensor&, const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                               const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::array<bool, 4>);
using RmsNormTraining = Triple(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, double);
using RmsNormBackward = Pair(const OptionalTensor&, const OptionalTensor&, const at::Tensor&, const at::Tensor&,
                             const OptionalTensor&, std::array<bool, 2>);

at::Tensor widened(const OptionalTensor& tensor, at::ScalarType type) {
  return given(tensor) ? tensor->to(type) : at::Tensor();
}

// The type that ATen's norms are given: on CUDA they compute 16-bit types in fp32 themselves, on the CPU they would
// keep the statistics in 16 bits.
at::ScalarType givenType(const at::Tensor& x) { return x.is_cuda() ? x.scalar_type() : computeType(x); }

// The sum that a layer norm normalises, in the type that composites compute in, or another.
at::Tensor summed(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& inputBias,
                  at::ScalarType compute) {
  at::Tensor sum = x.to(compute);
  if (given(inputBias)) sum = sum + inputBias->to(compute);
  if (given(residual)) sum = sum + residual->to(compute);
  return sum;
}

at::TensorOptions statistics(const at::Tensor& x) { return x.options().dtype(statisticsType(x)); }

Triple layerNormTraining(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                         const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  checkNorm("add_layer_norm_training", x, residual, weight, bias, inputBias);
  const at::ScalarType compute = givenType(x);
  const c10::SymInt columns[] = {x.sym_size(-1)};
  auto [out, mean, rstd] =
      at::native_layer_norm_symint(summed(x, residual, inputBias, compute).contiguous(), columns,
                                   orNothing(widened(weight, compute)), orNothing(widened(bias, compute)), eps);
  return {out.to(x.scalar_type()), mean.reshape_symint(rowsOf(x)), rstd.reshape_symint(rowsOf(x))};
}

Triple layerNormTrainingMeta(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                             const OptionalTensor& bias, double, const OptionalTensor& inputBias) {
  checkNorm("add_layer_norm_training", x, residual, weight, bias, inputBias);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(rowsOf(x), statistics(x)),
          at::empty_symint(rowsOf(x), statistics(x))};
}

// A sum over all rows of [..., columns].
at::Tensor overRows(const at::Tensor& tensor) {
  const c10::SymInt columns[] = {tensor.sym_size(-1)};
  return at::sum_to(tensor, c10::SymIntArrayRef(columns), true);
}

Four layerNormBackward(const at::Tensor& grad, const at::Tensor& x, const OptionalTensor& residual,
                       const OptionalTensor& inputBias, const at::Tensor& mean, const at::Tensor& rstd,
                       const OptionalTensor& weight, std::array<bool, 4> wanted) {
  checkNorm("add_layer_norm_backward", x, residual, weight, {}, inputBias);
  checkNormBackward("add_layer_norm_backward", x, grad, mean, rstd);
  const at::ScalarType compute = givenType(x);
  const c10::SymInt columns[] = {x.sym_size(-1)};
  // A weight must be there for the bias's gradient.
  const at::Tensor w = given(weight) ? weight->to(compute) : at::ones_symint(columns, x.options().dtype(compute));
  auto [dsum, dweight, dbias] = at::native_layer_norm_backward_symint(
      grad.to(compute).contiguous(), summed(x, residual, inputBias, compute).contiguous(), columns, mean.unsqueeze(-1),
      rstd.unsqueeze(-1), w, w, {wanted[0] || wanted[3], wanted[1], wanted[2]});
  const auto made = [&](bool isWanted, const at::Tensor& value) {
    return isWanted ? value.to(x.scalar_type()) : at::empty({0}, x.options());
  };
  return {made(wanted[0], dsum), made(wanted[1], dweight), made(wanted[2], dbias),
          wanted[3] ? overRows(dsum).to(x.scalar_type()) : at::empty({0}, x.options())};
}

Four layerNormBackwardMeta(const at::Tensor& grad, const at::Tensor& x, const OptionalTensor& residual,
                           const OptionalTensor& inputBias, const at::Tensor& mean, const at::Tensor& rstd,
                           const OptionalTensor& weight, std::array<bool, 4> wanted) {
  checkNorm("add_layer_norm_backward", x, residual, weight, {}, inputBias);
  checkNormBackward("add_layer_norm_backward", x, grad, mean, rstd);
  const c10::SymInt columns[] = {x.sym_size(-1)}, none[] = {0};
  const auto made = [&](bool isWanted, c10::SymIntArrayRef sizes) {
    return at::empty_symint(isWanted ? sizes : c10::SymIntArrayRef(none), x.options());
  };
  return {made(wanted[0], x.sym_sizes()), made(wanted[1], columns), made(wanted[2], columns), made(wanted[3], columns)};
}

// The sum as the residual stream goes on with it: rounded to the type.
at::Tensor rounded(const at::Tensor& x, const OptionalTensor& residual) {
  return given(residual) ? summed(x, residual, {}, computeType(x)).to(x.scalar_type()).contiguous()
                         : x.clone(at::MemoryFormat::Contiguous);
}

Triple rmsNormTraining(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double eps) {
  checkNorm("add_rms_norm_training", x, residual, weight, {}, {});
  const at::ScalarType compute = computeType(x);
  const at::Tensor sum = rounded(x, residual), wide = sum.to(compute);
  const at::Tensor rstd = at::rsqrt(at::mean(wide * wide, {-1}) + eps);
  at::Tensor normed = wide * rstd.unsqueeze(-1);
  if (given(weight)) normed = normed * weight->to(compute);
  return {normed.to(x.scalar_type()), sum, rstd};
}

Triple rmsNormTrainingMeta(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight, double) {
  checkNorm("add_rms_norm_training", x, residual, weight, {}, {});
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options()),
          at::empty_symint(rowsOf(x), statistics(x))};
}

// In the compute type; differentiable.
Pair rmsGradients(const OptionalTensor& grad, const OptionalTensor& gradSum, const at::Tensor& sum,
                  const at::Tensor& rstd, const OptionalTensor& weight) {
  const at::ScalarType compute = computeType(sum);
  at::Tensor dsum = widened(gradSum, compute), dweight;
  if (given(grad)) {
    const at::Tensor g = grad->to(compute), scale = rstd.unsqueeze(-1), normed = sum.to(compute) * scale;
    const at::Tensor weighted = given(weight) ? g * weight->to(compute) : g;
    const at::Tensor through = (weighted - normed * at::mean(weighted * normed, {-1}, true)) * scale;
    dsum = dsum.defined() ? dsum + through : through;
    dweight = overRows(g * normed);
  }
  return {dsum, dweight};
}

Pair rmsNormBackward(const OptionalTensor& grad, const OptionalTensor& gradSum, const at::Tensor& sum,
                     const at::Tensor& rstd, const OptionalTensor& weight, std::array<bool, 2> wanted) {
  checkRmsNormBackward(grad, gradSum, sum, rstd, weight);
  const auto [dsum, dweight] = rmsGradients(grad, gradSum, sum, rstd, weight);
  const auto made = [&](bool isWanted, const at::Tensor& value, c10::SymIntArrayRef sizes) {
    if (!isWanted) return at::empty({0}, sum.options());
    return value.defined() ? value.to(sum.scalar_type()).clone(at::MemoryFormat::Contiguous)
                           : at::zeros_symint(sizes, sum.options());
  };
  const c10::SymInt columns[] = {sum.sym_size(-1)};
  return {made(wanted[0], dsum, sum.sym_sizes()), made(wanted[1], dweight, columns)};
}

Pair rmsNormBackwardMeta(const OptionalTensor& grad, const OptionalTensor& gradSum, const at::Tensor& sum,
                         const at::Tensor& rstd, const OptionalTensor& weight, std::array<bool, 2> wanted) {
  checkRmsNormBackward(grad, gradSum, sum, rstd, weight);
  const c10::SymInt columns[] = {sum.sym_size(-1)}, none[] = {0};
  return {at::empty_symint(wanted[0] ? sum.sym_sizes() : c10::SymIntArrayRef(none), sum.options()),
          at::empty_symint(wanted[1] ? c10::SymIntArrayRef(columns) : c10::SymIntArrayRef(none), sum.options())};
}

std::vector<c10::SymInt> sizesOf(const OptionalTensor& tensor) {
  return given(tensor) ? tensor->sym_sizes().vec() : std::vector<c10::SymInt>();
}

}  // namespace

at::Tensor addLayerNormTrained(const at::Tensor& x, const OptionalTensor& residual, const OptionalTensor& weight,
                               const OptionalTensor& bias, double eps, const OptionalTensor& inputBias) {
  if (widerThan(x, residual))
    return addLayerNormTrained(withRowsOf(residual, x), residual, weight, bias, eps, inputBias);
  checkNorm("add_layer_norm", x, residual, weight, bias, inputBias);
  Derivative rule{.name = "add_layer_norm"};
  rule.forward = [eps](const Tensors& in, Tensors& kept) {
    static const auto forward = operatorNamed<LayerNormTraining>("graft::add_layer_norm_training");
    auto [out, mean, rstd] =
        forward.call(in[0], orNothing(in[1]), orNothing(in[2]), orNothing(in[3]), eps, orNothing(in[4]));
    kept = {mean, rstd};
    return Tensors{out};
  };
  rule.backward = [eps, residualSizes = sizesOf(residual)](const Tensors& in, const Tensors& kept,
                                                           const Tensors& gradients, const Wanted& wanted) {
    if (at::GradMode::is_enabled()) {
      return partials(
          [eps](const Tensors& i) {
            const at::ScalarType compute = computeType(i[0]);
            const c10::SymInt columns[] = {i[0].sym_size(-1)};
            return Tensors{at::layer_norm_symint(summed(i[0], orNothing(i[1]), orNothing(i[4]), compute), columns,
                                                 orNothing(widened(orNothing(i[2]), compute)),
                                                 orNothing(widened(orNothing(i[3]), compute)), eps)
                               .to(i[0].scalar_type())};
          },
          in, gradients);
    }
    static const auto backward = operatorNamed<LayerNormBackward>("graft::add_layer_norm_backward");
    auto [dsum, dweight, dbias, dinputBias] =
        backward.call(gradients[0], in[0], orNothing(in[1]), orNothing(in[4]), kept[0], kept[1], orNothing(in[2]),
                      {wanted[0] || wanted[1], wanted[2], wanted[3], wanted[4]});
    Tensors found{dsum, {}, dweight, dbias, dinputBias};
    if (wanted[1]) found[1] = at::sum_to(dsum, c10::SymIntArrayRef(residualSizes));
    return found;
  };
  return differentiated({x, orNone(residual), orNone(weight), orNone(bias), orNone(inputBias)}, std::move(rule))[0];
}

std::tuple<at::Tensor, at::Tensor> addRmsNormTrained(const at::Tensor& x, const OptionalTensor& residual,
                                                     const OptionalTensor& weight, double eps) {
  if (widerThan(x, residual)) return addRmsNormTrained(withRowsOf(residual, x), residual, weight, eps);
  checkNorm("add_rms_norm", x, residual, weight, {}, {});
  Derivative rule{.name = "add_rms_norm", .unread = {0, 1}};
  rule.forward = [eps](const Tensors& in, Tensors& kept) {
    static const auto forward = operatorNamed<RmsNormTraining>("graft::add_rms_norm_training");
    auto [normed, sum, rstd] = forward.call(in[0], orNothing(in[1]), orNothing(in[2]), eps);
    kept = {sum, rstd};
    return Tensors{normed, sum};
  };
  rule.backward = [eps, residualSizes = sizesOf(residual)](const Tensors& in, const Tensors& kept,
                                                           const Tensors& gradients, const Wanted& wanted) {
    const OptionalTensor grad = orNothing(gradients[0]), gradSum = orNothing(gradients[1]), weight = orNothing(in[2]);
    Tensors found(3);
    at::Tensor dsum;
    if (at::GradMode::is_enabled()) {  // `sum` is a function of x in autograd's graph; so must its deviation be
      const at::Tensor wide = kept[0].to(computeType(kept[0]));
      const auto both = rmsGradients(grad, gradSum, kept[0], at::rsqrt(at::mean(wide * wide, {-1}) + eps), weight);
      dsum = std::get<0>(both).to(kept[0].scalar_type());
      if (wanted[2] && std::get<1>(both).defined()) found[2] = std::get<1>(both).to(kept[0].scalar_type());
    } else {
      static const auto backward = operatorNamed<RmsNormBackward>("graft::add_rms_norm_backward");
      std::tie(dsum, found[2]) =
          backward.call(grad, gradSum, kept[0], kept[1], weight, {wanted[0] || wanted[1], wanted[2]});
    }
    found[0] = dsum;
    if (wanted[1]) found[1] = at::sum_to(dsum, c10::SymIntArrayRef(residualSizes));
    return found;
  };
  auto both = differentiated({x, orNone(residual), orNone(weight)}, std::move(rule));
  return {both[0], both[1]};
}

// PyTorch gathers from the tables, whose gradients it knows best; the norm adds what the last of them gives.
at::Tensor embeddingLayerNormTrained(at::TensorList ids, at::TensorList tables, const OptionalTensor& weight,
                                     const OptionalTensor& bias, double eps) {
  checkEmbedding(ids, tables, weight, bias);
  static const auto norm =
      operatorNamed<at::Tensor(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                               double, const OptionalTensor&)>("graft::add_layer_norm");
  at::Tensor first = at::embedding(tables[0], ids[0]), rest;
  for (size_t i = 1; i < tables.size(); ++i) {
    const at::Tensor next = at::embedding(tables[i], ids[i]);
    rest = rest.defined() ? rest + next : next;
  }
  if (rest.defined()) {
    const auto shape = at::infer_size_symdimvector(first.sym_sizes(), rest.sym_sizes());
    first = first.expand_symint(shape);
  }
  return norm.call(first, orNothing(rest), weight, bias, eps, {});
}

TORCH_LIBRARY_FRAGMENT(graft, m) {
  const auto composite = c10::DispatchKey::CompositeExplicitAutograd, meta = c10::DispatchKey::Meta;
  m.def(
      "add_layer_norm_training(Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, float eps, Tensor? "
      "input_bias) -> (Tensor out, Tensor mean, Tensor rstd)",
      {at::Tag::pt2_compliant_tag});
  m.impl("add_layer_norm_training", torch::dispatch(composite, &layerNormTraining));
  m.impl("add_layer_norm_training", torch::dispatch(meta, &layerNormTrainingMeta));
  m.def(
      "add_layer_norm_backward(Tensor grad, Tensor x, Tensor? residual, Tensor? input_bias, Tensor mean, Tensor rstd, "
      "Tensor? weight, bool[4] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.impl("add_layer_norm_backward", torch::dispatch(composite, &layerNormBackward));
  m.impl("add_layer_norm_backward", torch::dispatch(meta, &layerNormBackwardMeta));
  m.def(
      "add_rms_norm_training(Tensor x, Tensor? residual, Tensor? weight, float eps) -> (Tensor normed, Tensor sum, "
      "Tensor rstd)",
      {at::Tag::pt2_compliant_tag});
  m.impl("add_rms_norm_training", torch::dispatch(composite, &rmsNormTraining));
  m.impl("add_rms_norm_training", torch::dispatch(meta, &rmsNormTrainingMeta));
  m.def(
      "add_rms_norm_backward(Tensor? grad, Tensor? grad_sum, Tensor sum, Tensor rstd, Tensor? weight, bool[2] wanted) "
      "-> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  m.impl("add_rms_norm_backward", torch::dispatch(composite, &rmsNormBackward));
  m.impl("add_rms_norm_backward", torch::dispatch(meta, &rmsNormBackwardMeta));
}

}  // namespace graft::ops
