#include "kernels/cpu/packed_linear.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/support.h"

namespace graft::ops {
namespace {

at::Tensor matrix(const at::Tensor& weight) {
  return weight.dim() == 2 ? weight : weight.reshape({weight.size(0), weight.size(1)});
}

at::Tensor oneDnnWeight(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::OneDnnLinear}, {}, [&] {
    static const auto reorder = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                                    .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
    // The layout for 128 rows serves all larger numbers of rows within a few percent.
    return reorder.call(matrix(floats(weight)), 128);
  });
}

at::Tensor panelWeight(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::Panels}, {}, [&] {
    const at::Tensor wide = floats(weight);
    at::Tensor packed = at::empty({loops().packedWeightSize(wide.size(0), wide.size(1))}, wide.options());
    loops().packWeight(wide.const_data_ptr<float>(), wide.size(0), wide.size(1), packed.mutable_data_ptr<float>());
    return packed;
  });
}

at::Tensor linearByOneDnn(const at::Tensor& x, const at::Tensor& packed, const OptionalTensor& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  static const c10::List<std::optional<at::Scalar>>& none = *new c10::List<std::optional<at::Scalar>>;
  return pointwise.call(x, packed, bias, "none", none, "");
}

constexpr int64_t kFewRows = 24;

void linearByLoops(LinearArgs args, const at::Tensor& packed) {
  args.packed = packed.const_data_ptr<float>();
  const int64_t panels = (args.outputs + loops().weightPanel - 1) / loops().weightPanel;
  // A thread should get at least about 100,000 weights.
  const int64_t panelWork = loops().weightPanel * args.depth * std::max<int64_t>(1, args.rows / 4);
  at::parallel_for(0, panels, std::max<int64_t>(1, 100000 / panelWork),
                   [&](int64_t begin, int64_t end) { loops().linear(args, begin, end); });
}

}  // namespace

at::Tensor linearForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual) {
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor input = dense(wide ? x : x.to(at::kFloat));
  at::DimVector shape(x.sizes());
  shape.back() = weight.size(0);
  LinearArgs args;
  args.scalar = scalarOf(x);
  args.activation = activation;
  args.outputs = weight.size(0);
  args.depth = weight.size(1);
  const at::Tensor b = floats(bias);
  args.bias = floatsOf(b);
  at::Tensor added;
  if (given(residual)) {
    added = residual->sizes() == at::IntArrayRef(shape) ? dense(*residual) : dense(residual->expand(shape));
    args.residual = added.const_data_ptr();
  }
  const bool packs = x.numel() > 0 && mayPack(weight);
  args.rows = packs ? x.numel() / args.depth : 0;
  if (packs && args.rows <= kFewRows) {
    const at::Tensor packed = panelWeight(weight);
    if (packed.defined()) {
      const at::Tensor out = at::empty(shape, x.options());
      args.x = input.const_data_ptr<float>();
      args.out = out.mutable_data_ptr();
      linearByLoops(args, packed);
      return out;
    }
  }
  at::Tensor product;
  if (packs && at::globalContext().userEnabledMkldnn()) {
    const at::Tensor packed = oneDnnWeight(weight);
    if (packed.defined()) product = linearByOneDnn(input, packed, b);
  }
  if (!product.defined()) product = dense(at::linear(input, matrix(wide ? weight : weight.to(at::kFloat)), b));
  // oneDNN could apply the activation too. But its ReLU turns NaN into 0, and its GELU turns -Inf into 0 where PyTorch
  // gives NaN.
  if ((wide && activation == Activation::None && !args.residual) || product.numel() == 0)
    return product.to(x.scalar_type());
  const at::Tensor out = wide ? product : at::empty(shape, x.options());
  at::parallel_for(0, out.numel() / args.outputs, grain(args.outputs), [&](int64_t begin, int64_t end) {
    loops().epilogue(args.scalar, activation, product.const_data_ptr<float>(), nullptr, args.residual,
                     out.mutable_data_ptr(), args.outputs, begin, end);
  });
  return out;
}

}  // namespace graft::ops
