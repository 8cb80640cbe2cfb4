// The derivatives of graft::swiglu, rotary_embedding and masked_softmax.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softmax.h>
#include <torch/library.h>

#include <tuple>

#include "kernels/cpu/support.h"
#include "kernels/ops/gradients/contracts.h"
#include "kernels/ops/gradients/derivative.h"
#include "kernels/ops/gradients/gradients.h"

namespace graft::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair swigluBackward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  checkSwigluBackward(grad, gate, up);
  const at::ScalarType compute = computeType(gate);
  const at::Tensor g = grad.to(compute), x = gate.to(compute);
  return {at::silu_backward(g * up.to(compute), x).to(gate.scalar_type()).contiguous(),
          (g * at::silu(x)).to(gate.scalar_type()).contiguous()};
}

Pair swigluBackwardMeta(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  checkSwigluBackward(grad, gate, up);
  return {at::empty_symint(gate.sym_sizes(), gate.options()), at::empty_symint(gate.sym_sizes(), gate.options())};
}

// [batch or 1, 1, length, head size]
at::Tensor tableWithHeads(const at::Tensor& table) {
  if (table.dim() == 2) return table.unsqueeze(0).unsqueeze(0);
  return table.dim() == 3 ? table.unsqueeze(1) : table;
}

// The transpose of a turn: x = g * cos + turned_back(g * sin).
at::Tensor rotaryBackward(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin) {
  checkRotary(grad, grad, cos, sin);
  const at::ScalarType compute = computeType(grad);
  const at::Tensor g = grad.to(compute), s = g * tableWithHeads(sin).to(compute);
  const c10::SymInt half = grad.sym_size(-1) / 2;
  const at::Tensor back = at::cat({s.narrow_symint(-1, half, half), -s.narrow_symint(-1, 0, half)}, -1);
  const at::Tensor values = (g * tableWithHeads(cos).to(compute) + back).to(grad.scalar_type());
  const at::Tensor layout = at::empty_like(grad);
  if (values.sym_strides() == layout.sym_strides()) return values;
  return layout.copy_(values);
}

at::Tensor rotaryBackwardMeta(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin) {
  checkRotary(grad, grad, cos, sin);
  return at::empty_like(grad);
}

// The same turn of ATen operators, for tables that require a gradient.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::ScalarType compute = computeType(x);
  const at::Tensor wide = x.to(compute);
  const c10::SymInt half = x.sym_size(-1) / 2;
  const at::Tensor other = at::cat({-wide.narrow_symint(-1, half, half), wide.narrow_symint(-1, 0, half)}, -1);
  const at::Tensor values =
      (wide * tableWithHeads(cos).to(compute) + other * tableWithHeads(sin).to(compute)).to(x.scalar_type());
  const at::Tensor layout = at::empty_like(x);
  return values.sym_strides() == layout.sym_strides() ? values : layout.copy_(values);
}

at::Tensor softmaxBackward(const at::Tensor& grad, const at::Tensor& out, double scale, int64_t dim) {
  checkSoftmaxBackward(grad, out, dim);
  const at::ScalarType compute = computeType(out);
  at::Tensor dx = at::_softmax_backward_data(grad.to(compute), out.to(compute), dim, compute);
  if (scale != 1.0) dx = dx * scale;
  return dx.to(out.scalar_type()).contiguous();
}

at::Tensor softmaxBackwardMeta(const at::Tensor& grad, const at::Tensor& out, double, int64_t dim) {
  checkSoftmaxBackward(grad, out, dim);
  return at::empty_symint(out.sym_sizes(), out.options());
}

}  // namespace

at::Tensor swigluTrained(const at::Tensor& gate, const at::Tensor& up) {
  if (areToBroadcast(gate, up)) return std::apply(swigluTrained, broadcastTogether(gate, up));
  checkSwiglu(gate, up);
  Derivative rule{.name = "swiglu"};
  rule.forward = [](const Tensors& in, Tensors&) {
    static const auto forward = operatorNamed<at::Tensor(const at::Tensor&, const at::Tensor&)>("graft::swiglu");
    return Tensors{forward.call(in[0], in[1])};
  };
  rule.backward = [](const Tensors& in, const Tensors&, const Tensors& gradients, const Wanted&) {
    if (at::GradMode::is_enabled()) {
      return partials([](const Tensors& x) { return Tensors{at::silu(x[0]) * x[1]}; }, in, gradients);
    }
    static const auto backward =
        operatorNamed<Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&)>("graft::swiglu_backward");
    auto [dgate, dup] = backward.call(gradients[0], in[0], in[1]);
    return Tensors{dgate, dup};
  };
  return differentiated({gate, up}, std::move(rule))[0];
}

std::tuple<at::Tensor, at::Tensor> rotaryTrained(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                                 const at::Tensor& sin) {
  checkRotary(q, k, cos, sin);
  if (cos.requires_grad() || sin.requires_grad()) return {turned(q, cos, sin), turned(k, cos, sin)};
  Derivative rule{.name = "rotary_embedding", .unread = {0, 1}};
  rule.forward = [](const Tensors& in, Tensors&) {
    static const auto forward =
        operatorNamed<Pair(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "graft::rotary_embedding");
    auto [q, k] = forward.call(in[0], in[1], in[2], in[3]);
    return Tensors{q, k};
  };
  // The derivative of a turn is a turn: derivatives of any order run through this operator.
  rule.backward = [](const Tensors& in, const Tensors&, const Tensors& gradients, const Wanted& wanted) {
    static const auto backward =
        operatorNamed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>("graft::rotary_backward");
    Tensors found(4);
    for (size_t i = 0; i < 2; ++i) {
      if (!wanted[i] || !gradients[i].defined()) continue;
      found[i] = at::GradMode::is_enabled() ? rotaryBackward(gradients[i], in[2], in[3])
                                            : backward.call(gradients[i], in[2], in[3]);
    }
    return found;
  };
  auto both = differentiated({q, k, cos, sin}, std::move(rule));
  return {both[0], both[1]};
}

at::Tensor maskedSoftmaxTrained(const at::Tensor& x, const OptionalTensor& mask, double scale, int64_t dim) {
  checkSoftmax(x, mask, dim);
  if (given(mask) && mask->requires_grad()) {
    const at::ScalarType compute = computeType(x);
    return at::softmax(x.to(compute) * scale + mask->to(compute), dim).to(x.scalar_type()).contiguous();
  }
  Derivative rule{.name = "masked_softmax", .unread = {0, 1}};
  rule.forward = [scale, dim](const Tensors& in, Tensors& kept) {
    static const auto forward =
        operatorNamed<at::Tensor(const at::Tensor&, const OptionalTensor&, double, int64_t)>("graft::masked_softmax");
    kept.push_back(forward.call(in[0], orNothing(in[1]), scale, dim));
    return kept;
  };
  rule.backward = [scale, dim](const Tensors&, const Tensors& kept, const Tensors& gradients, const Wanted&) {
    const at::Tensor& out = kept[0];
    if (at::GradMode::is_enabled()) {  // `out` is a function of x in autograd's graph
      const at::Tensor product = gradients[0] * out;
      return Tensors{(product - out * product.sum(dim, true)) * scale, {}};
    }
    static const auto backward = operatorNamed<at::Tensor(const at::Tensor&, const at::Tensor&, double, int64_t)>(
        "graft::masked_softmax_backward");
    return Tensors{backward.call(gradients[0], out, scale, dim), {}};
  };
  return differentiated({x, orNone(mask)}, std::move(rule))[0];
}

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)", {at::Tag::pt2_compliant_tag});
  m.impl("swiglu_backward", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &swigluBackward));
  m.impl("swiglu_backward", torch::dispatch(c10::DispatchKey::Meta, &swigluBackwardMeta));
  m.def("rotary_backward(Tensor grad, Tensor cos, Tensor sin) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.impl("rotary_backward", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &rotaryBackward));
  m.impl("rotary_backward", torch::dispatch(c10::DispatchKey::Meta, &rotaryBackwardMeta));
  m.def("masked_softmax_backward(Tensor grad, Tensor out, float scale, int dim) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.impl("masked_softmax_backward", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &softmaxBackward));
  m.impl("masked_softmax_backward", torch::dispatch(c10::DispatchKey::Meta, &softmaxBackwardMeta));
}

}  // namespace graft::ops
