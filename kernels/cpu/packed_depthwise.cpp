#include "kernels/cpu/packed_depthwise.h"

#include <ATen/ops/empty.h>

#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/support.h"

namespace graft::ops {
namespace {

DepthwiseArgs argsOf(const at::Tensor& x, const at::Tensor& weight, const ConvArgs& conv) {
  DepthwiseArgs a;
  a.channels = x.size(1);
  a.height = x.size(2), a.width = x.size(3);
  for (int d = 0; d < 2; ++d) {
    a.kernel[d] = weight.size(2 + d);
    a.stride[d] = conv.stride[d];
    a.padding[d] = conv.padding[d];
    a.dilation[d] = conv.dilation[d];
  }
  return a;
}

// oneDNN computes several rows at a time. That is up to 1.3 times as fast where the input rows of one output row do not
// fit the first-level cache and each input is used few times; elsewhere our loops are 1.2 to 2 times as fast.
bool isForOneDnn(const DepthwiseArgs& a) {
  constexpr int64_t cached = 16384;  // floats
  return a.kernel[1] == 3 && a.stride[1] == 1 && a.channels % 16 == 0 && a.channels * a.width * a.kernel[0] >= cached;
}

// [kernel height, kernel width, channels]
at::Tensor channelsInnermost(const at::Tensor& weight) {
  return packedWeight(weight, {PackedKind::Depthwise}, {}, [&] {
    return floats(weight).view({weight.size(0), -1}).t().contiguous();
  });
}

}  // namespace

bool mayRunDepthwise(const at::Tensor& x, const at::Tensor& weight, const ConvArgs& conv) {
  return x.dim() == 4 && x.scalar_type() == at::kFloat && conv.groups == x.size(1) && weight.size(0) == x.size(1) &&
         weight.size(1) == 1 && conv.stride.size() == 2 && conv.padding.size() == 2 && conv.dilation.size() == 2 &&
         loops().takesDepthwise(argsOf(x, weight, conv)) && !isForOneDnn(argsOf(x, weight, conv));
}

at::Tensor depthwiseForward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& residual, const ConvArgs& conv, at::IntArrayRef outputShape,
                            Activation activation, double alpha, double beta) {
  const at::Tensor packed = channelsInnermost(weight);
  if (!packed.defined()) return {};
  const at::Tensor out = at::empty(outputShape, x.options(), at::MemoryFormat::ChannelsLast);
  DepthwiseArgs a = argsOf(x, weight, conv);
  a.x = x.const_data_ptr<float>();
  a.packed = packed.const_data_ptr<float>();
  a.bias = floatsOf(bias);
  a.out = out.mutable_data_ptr<float>();
  a.outHeight = out.size(2), a.outWidth = out.size(3);
  ActivationArgs finish;
  finish.activation = activation;
  finish.alpha = static_cast<float>(alpha), finish.beta = static_cast<float>(beta);
  finish.x = a.out;
  finish.out = a.out;
  if (residual.defined()) finish.residual = residual.const_data_ptr();
  const bool hasEpilogue = residual.defined() || activation != Activation::None;
  const int64_t row = a.outWidth * a.channels;
  at::parallel_for(0, out.size(0) * a.outHeight, grain(row * a.kernel[0]), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      loops().depthwise(a, r, r + 1);
      if (hasEpilogue) loops().addActivate(finish, r * row, (r + 1) * row);
    }
  });
  return out;
}

}  // namespace graft::ops
