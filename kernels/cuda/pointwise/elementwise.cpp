// graft::rotary_embedding, swiglu, conv_bias_add_relu and conv_activation on CUDA.
#include <ATen/ops/convolution.h>
#include <ATen/ops/cudnn_convolution_add_relu.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <chrono>
#include <mutex>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/tuning_budget.h"
#include "kernels/ops/activation.h"

namespace graft::cuda {
namespace {

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  at::Tensor out = at::empty_like(x);
  if (out.numel() == 0) return out;
  RotaryArgs a;
  a.dtype = dtypeOf("rotary_embedding", x);
  a.x = x.const_data_ptr(), a.out = out.mutable_data_ptr();
  a.cos = cos.const_data_ptr(), a.sin = sin.const_data_ptr();
  for (int d = 0; d < 4; ++d) {
    a.size[d] = x.size(d);
    a.xs[d] = x.stride(d), a.os[d] = out.stride(d);
    a.cs[d] = cos.size(d) == 1 ? 0 : cos.stride(d), a.ss[d] = sin.size(d) == 1 ? 0 : sin.stride(d);
  }
  a.pdl = usesPdl();
  report("rotary_embedding", launchRotary(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

std::tuple<at::Tensor, at::Tensor> rotaryEmbedding(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                                   const at::Tensor& sin) {
  ops::checkRotary(q, k, cos, sin);
  dtypeOf("rotary_embedding", q);
  const c10::cuda::CUDAGuard guard(q.device());
  const auto table = [](at::Tensor t) {
    while (t.dim() < 4) t = t.unsqueeze(t.dim() == 2 ? 0 : 1);
    // Tables in fp32 keep their precision. They are small, and read far more often than converted.
    return t.scalar_type() == at::kFloat ? t : t.to(at::kFloat);
  };
  const at::Tensor c = table(cos), s = table(sin);
  return {rotated(q, c, s), rotated(k, c, s)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  ops::checkSwiglu(gate, up);
  const c10::cuda::CUDAGuard guard(gate.device());
  SwigluArgs a;
  a.dtype = dtypeOf("swiglu", gate);
  at::Tensor out = at::empty(gate.sizes(), gate.options());
  if (out.numel() == 0) return out;
  const Rows g = asRows(gate.dim() ? gate : gate.unsqueeze(0)), u = asRows(up.dim() ? up : up.unsqueeze(0));
  a.gate = g.tensor.const_data_ptr(), a.ldg = g.stride;
  a.up = u.tensor.const_data_ptr(), a.ldu = u.stride;
  a.out = out.mutable_data_ptr();
  a.rows = g.rows, a.n = g.columns;
  a.pdl = usesPdl();
  report("swiglu", launchSwiglu(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

// While it lives, cuDNN times its plans and remembers the fastest, if tuning is allowed. cuDNN does so when it first
// sees a convolution, so the order is the model's; half of the budget is left for products. The switch is global to the
// process: with several threads, the first turns it on and the last restores it.
class CudnnBenchmark {
 public:
  CudnnBenchmark() : on_(options().autotune && !isCapturing() && !tuningBudget().isSpent(0.5)) {
    if (!on_) return;
    const std::lock_guard lock(mutex);
    if (users++ > 0) return;
    before = at::globalContext().benchmarkCuDNN();
    at::globalContext().setBenchmarkCuDNN(true);
  }
  ~CudnnBenchmark() {
    if (!on_) return;
    // A convolution that cuDNN knows already takes the host some microseconds.
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds > 1e-3) tuningBudget().add(seconds);
    const std::lock_guard lock(mutex);
    if (--users == 0) at::globalContext().setBenchmarkCuDNN(before);
  }
  CudnnBenchmark(const CudnnBenchmark&) = delete;
  CudnnBenchmark& operator=(const CudnnBenchmark&) = delete;

 private:
  static inline std::mutex mutex;
  static inline int users = 0;
  static inline bool before = false;
  const bool on_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Whether one cuDNN kernel does it all, which exists for half types in channels-last.
bool isOneKernel(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& residual, int64_t groups,
                 bool relu) {
  return relu && groups == 1 && x.dim() == 4 && x.numel() > 0 && dtypeOf("conv_bias_add_relu", x) != Dtype::kFloat &&
         ops::convFormat(x, weight) == at::MemoryFormat::ChannelsLast && (!given(residual) || residual->dim() == 4) &&
         at::globalContext().userEnabledCuDNN();
}

// One cuDNN kernel where there is one. Otherwise cuDNN's convolution without bias, then one kernel for bias, residual
// and ReLU in place.
at::Tensor convBiasAddRelu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                           const OptionalTensor& residual, at::IntArrayRef stride, at::IntArrayRef padding,
                           at::IntArrayRef dilation, int64_t groups, bool relu) {
  ops::checkConv("conv_bias_add_relu", x, weight, bias, residual, stride.size(), padding.size(), dilation.size(),
                 groups);
  const c10::cuda::CUDAGuard guard(x.device());
  ConvEpilogueArgs a;
  a.dtype = dtypeOf("conv_bias_add_relu", x);
  const CudnnBenchmark benchmark;
  const at::MemoryFormat format = ops::convFormat(x, weight);
  if (isOneKernel(x, weight, residual, groups, relu)) {
    const at::Tensor image = x.contiguous(format), filter = weight.contiguous(format);
    if (!given(residual)) return at::cudnn_convolution_relu(image, filter, bias, stride, padding, dilation, groups);
    const std::vector<c10::SymInt> whole = ops::convShape("conv_bias_add_relu", x, weight, stride, padding, dilation);
    if (residual->sym_sizes() == c10::SymIntArrayRef(whole))
      return at::cudnn_convolution_add_relu(image, filter, residual->contiguous(format), 1.0, bias, stride, padding,
                                            dilation, groups);
  }
  const std::vector<int64_t> outputPadding(stride.size(), 0);
  at::Tensor out =
      at::convolution(x, weight, {}, stride, padding, dilation, false, outputPadding, groups).contiguous(format);
  if (given(residual)) {
    ops::checkBroadcast("conv_bias_add_relu", residual, "residual", out.sym_sizes(), "the output");
  }
  if (out.numel() == 0 || (!given(bias) && !given(residual) && !relu)) return out;
  const at::Tensor added = given(residual) ? residual->expand_as(out).contiguous(format) : at::Tensor();
  const OptionalTensor b = dense(bias);
  a.y = out.mutable_data_ptr();
  a.bias = pointer(b);
  a.other = added.defined() ? added.const_data_ptr() : nullptr;
  a.count = out.numel();
  a.channels = out.size(1);
  a.channelStride = 1;
  if (format == at::MemoryFormat::Contiguous) {
    for (int64_t d = 2; d < out.dim(); ++d) a.channelStride *= out.size(d);
  }
  a.relu = relu;
  a.pdl = usesPdl();
  report("conv_bias_add_relu", launchConvEpilogue(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

// The activation is an operator of its own, but for ReLU.
at::Tensor convActivation(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                          const OptionalTensor& residual, at::IntArrayRef stride, at::IntArrayRef padding,
                          at::IntArrayRef dilation, int64_t groups, std::string_view activation, double alpha,
                          double beta) {
  ops::checkConvActivation(activation);
  const bool relu = activation == "relu";
  const at::Tensor y = convBiasAddRelu(x, weight, bias, residual, stride, padding, dilation, groups, relu);
  return relu ? y : ops::activated(y, ops::activationOf(activation), alpha, beta);
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("rotary_embedding", &CompositeFallback<"rotary_embedding", rotaryEmbedding>::call);
  m.impl("swiglu", &CompositeFallback<"swiglu", swiglu>::call);
  m.impl("conv_bias_add_relu", &CompositeFallback<"conv_bias_add_relu", convBiasAddRelu>::call);
  m.impl("conv_activation", &CompositeFallback<"conv_activation", convActivation>::call);
}

}  // namespace graft::cuda
