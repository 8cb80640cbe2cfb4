#include "kernels/cpu/packed_conv.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cpu/packed_depthwise.h"
#include "kernels/cpu/packed_linear.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/support.h"
#include "kernels/library/kept_memory.h"
#include "kernels/ops/activation.h"

namespace graft::ops {
namespace {

bool allAre(at::IntArrayRef numbers, int64_t value) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == value; });
}

// Each pixel's outputs depend on its own channels only.
bool isProduct(const at::Tensor& weight, const ConvArgs& conv) {
  return conv.groups == 1 && allAre(weight.sizes().slice(2), 1) && allAre(conv.stride, 1) && allAre(conv.padding, 0);
}

// The residual is of the output's shape, or undefined.
at::Tensor productOfChannels(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             Activation activation, const at::Tensor& residual) {
  at::DimVector innermost{0}, second{0, x.dim() - 1}, shape{x.size(0)};
  for (int64_t d = 2; d < x.dim(); ++d) {
    innermost.push_back(d);
    second.push_back(d - 1);
    shape.push_back(x.size(d));
  }
  innermost.push_back(1);
  shape.push_back(weight.size(0));
  const at::Tensor rows = dense(x.permute(innermost)).view({-1, x.size(1)});
  OptionalTensor added;
  if (residual.defined()) added = dense(residual.permute(innermost)).view({-1, weight.size(0)});
  return linearForward(rows, weight, bias, activation, added).view(shape).permute(second);
}

std::vector<int64_t> behindOne(at::IntArrayRef numbers, int64_t first) {
  std::vector<int64_t> all{first};
  all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

// In channels-last, or undefined where there is no memory for the weight's copy. x and the weight are of one type.
at::Tensor convByOneDnn(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type, const at::Tensor& bias,
                        const ConvArgs& conv) {
  if (x.dim() == 3) {  // oneDNN's operators take images and volumes
    // A weight's copy is kept under the weight itself, whose version a view made here would not share.
    const std::vector<int64_t> stride = behindOne(conv.stride, 1), padding = behindOne(conv.padding, 0),
                               dilation = behindOne(conv.dilation, 1);
    const at::Tensor y = convByOneDnn(x.unsqueeze(2), weight, type, bias, {stride, padding, dilation, conv.groups});
    return y.defined() ? y.squeeze(2) : y;
  }
  at::DimVector shape(x.sizes());
  for (const at::IntArrayRef numbers : {conv.stride, conv.padding, conv.dilation})
    shape.append(numbers.begin(), numbers.end());
  const at::Tensor packed = packedWeight(weight, {PackedKind::OneDnnConv, conv.groups, type}, shape, [&] {
    using Signature = at::Tensor(const at::Tensor&, c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef,
                                 c10::SymInt, at::OptionalSymIntArrayRef);
    static const auto reorder =
        c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_convolution_weight", "").typed<Signature>();
    at::Tensor filter = dense(weight.to(type));
    if (filter.dim() == 3) filter = filter.unsqueeze(2);
    return reorder.call(filter, c10::fromIntArrayRefSlow(conv.padding), c10::fromIntArrayRefSlow(conv.stride),
                        c10::fromIntArrayRefSlow(conv.dilation), conv.groups,
                        at::OptionalSymIntArrayRef(c10::fromIntArrayRefSlow(x.sizes())));
  });
  if (!packed.defined()) return {};
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, c10::SymIntArrayRef,
                               c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymInt, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_convolution_pointwise", "").typed<Signature>();
  static const c10::List<std::optional<at::Scalar>>& none = *new c10::List<std::optional<at::Scalar>>;
  return pointwise.call(x, packed, bias.defined() ? OptionalTensor(bias) : std::nullopt,
                        c10::fromIntArrayRefSlow(conv.padding), c10::fromIntArrayRefSlow(conv.stride),
                        c10::fromIntArrayRefSlow(conv.dilation), conv.groups, "none", none, "");
}

bool hasBf16Products() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

// Whether rounding before this activation gives what rounding after it does.
bool commutesWithRounding(Activation activation) {
  return activation == Activation::None || activation == Activation::Relu;
}

}  // namespace

at::Tensor convForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& residual, const ConvArgs& conv, Activation activation, double alpha,
                       double beta) {
  const KeptMemory kept;
  const at::MemoryFormat format = convFormat(x, weight);
  at::DimVector shape;
  for (const c10::SymInt& size : convShape("conv_activation", x, weight, conv.stride, conv.padding, conv.dilation))
    shape.push_back(size.expect_int());
  const int64_t count = c10::multiply_integers(shape);
  const bool packs = x.numel() > 0 && count > 0 && mayPack(weight) && at::globalContext().userEnabledMkldnn();
  // See above on images that are not in channels-last.
  const bool pays = format != at::MemoryFormat::Contiguous || weight.numel() > x.numel() + count ||
                    (isProduct(weight, conv) && x.numel() == x.size(0) * x.size(1));
  const bool asBf16 = x.scalar_type() == at::kBFloat16 && packs && pays && !given(residual) &&
                      commutesWithRounding(activation) && hasBf16Products();
  if (asBf16) {
    const at::Tensor image = x.contiguous(format);
    const at::Tensor y = convByOneDnn(image, weight, at::kBFloat16, given(bias) ? dense(*bias) : at::Tensor(), conv);
    if (y.defined()) return laid(activated(y, activation), format);
  }

  const at::Tensor image = x.scalar_type() == at::kFloat ? x : x.to(at::kFloat);
  const at::Tensor b = floats(bias);
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor added = given(residual) ? laid(residual->expand(shape), format) : at::Tensor();
  at::Tensor y;
  bool finished = false;
  if (packs && pays) {
    if (format == at::MemoryFormat::ChannelsLast && mayRunDepthwise(image, weight, conv)) {
      finished = wide;
      y = depthwiseForward(image.contiguous(format), weight, b, finished ? added : at::Tensor(), conv, shape,
                           finished ? activation : Activation::None, alpha, beta);
      finished = finished && y.defined();
    } else if (wide && isProduct(weight, conv)) {
      const bool takesParameters = activation == Activation::HardTanh || activation == Activation::LeakyRelu;
      // The product adds a residual behind its activation, a convolution before it.
      finished = !takesParameters && (!given(residual) || activation == Activation::None);
      y = productOfChannels(image, weight, b, finished ? activation : Activation::None,
                            finished ? added : at::Tensor());
    } else {
      y = convByOneDnn(image.contiguous(format), weight, at::kFloat, b, conv);
    }
  }
  if (!y.defined()) {
    const std::vector<int64_t> outputPadding(conv.stride.size(), 0);
    y = at::convolution(image, weight.to(at::kFloat), b.defined() ? OptionalTensor(b) : std::nullopt, conv.stride,
                        conv.padding, conv.dilation, false, outputPadding, conv.groups);
  }
  y = laid(y, format);
  if (finished || (activation == Activation::None && !given(residual))) return wide ? y : y.to(x.scalar_type());
  const at::Tensor out = wide ? y : at::empty(shape, x.options(), format);
  ActivationArgs args;
  args.scalar = scalarOf(x);
  args.activation = activation;
  args.alpha = static_cast<float>(alpha), args.beta = static_cast<float>(beta);
  args.x = y.const_data_ptr<float>();
  if (added.defined()) args.residual = added.const_data_ptr();
  args.out = out.mutable_data_ptr();
  at::parallel_for(0, count, grain(1), [&](int64_t begin, int64_t end) { loops().addActivate(args, begin, end); });
  return out;
}

}  // namespace graft::ops
