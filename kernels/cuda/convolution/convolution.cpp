// graft::conv_bias_add_relu and conv_activation on CUDA.
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cudnn/Handle.h>
#include <ATen/ops/cudnn_convolution_add_relu.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fill.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "kernels/cuda/composite_fallback.h"
#include "kernels/cuda/convolution/cudnn_convolution.h"
#include "kernels/cuda/convolution/grouped_convolution.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/product.h"
#include "kernels/cuda/support.h"
#include "kernels/cuda/tuning/gemm_cache.h"
#include "kernels/cuda/tuning/tuning.h"
#include "kernels/cuda/tuning/tuning_budget.h"
#include "kernels/ops/activation.h"

namespace graft::cuda {
namespace {

// The kernels' names for activations are the CPU's, in the same order.
ConvActivation convActivationOf(std::string_view name) {
  static_assert(static_cast<int>(ConvActivation::kLeakyRelu) == static_cast<int>(ops::Activation::LeakyRelu));
  return static_cast<ConvActivation>(ops::activationOf(name));
}

// Whether PyTorch has one cuDNN kernel for it all: of half types in channels-last, with ReLU.
bool isOneOfPyTorch(const ConvCall& c) {
  return c.activation == ConvActivation::kRelu && c.isOfHalfImages() &&
         (!given(c.residual) || c.residual->dim() == 4) && at::globalContext().userEnabledCuDNN();
}

// PyTorch's kernel where it has one. Otherwise cuDNN's convolution without bias, then one kernel for bias, residual
// and activation in place.
at::Tensor byPyTorch(const ConvCall& c) {
  const CudnnBenchmark benchmark;
  if (isOneOfPyTorch(c)) {
    const at::Tensor image = c.x.contiguous(c.format), filter = c.weight.contiguous(c.format);
    if (!given(c.residual))
      return at::cudnn_convolution_relu(image, filter, c.bias, c.stride, c.padding, c.dilation, c.groups);
    if (c.hasWholeResidual())
      return at::cudnn_convolution_add_relu(image, filter, c.residual->contiguous(c.format), 1.0, c.bias, c.stride,
                                            c.padding, c.dilation, c.groups);
  }
  at::Tensor out = (isOfGroups(c) ? convolveGroups(c) : convolve(c, c.x, c.weight)).contiguous(c.format);
  if (given(c.residual)) ops::checkBroadcast(c.op, c.residual, "residual", out.sym_sizes(), "the output");
  if (out.numel() == 0 || !c.hasEpilogue()) return out;
  const at::Tensor added = given(c.residual) ? c.residual->expand_as(out).contiguous(c.format) : at::Tensor();
  const OptionalTensor b = dense(c.bias);
  ConvEpilogueArgs a;
  a.dtype = dtypeOf(c.op, c.x);
  a.y = out.mutable_data_ptr();
  a.bias = pointer(b);
  a.other = added.defined() ? added.const_data_ptr() : nullptr;
  a.count = out.numel();
  a.channels = out.size(1);
  a.channelStride = 1;
  if (c.format == at::MemoryFormat::Contiguous) {
    for (int64_t d = 2; d < out.dim(); ++d) a.channelStride *= out.size(d);
  }
  a.activation = c.activation;
  a.alpha = static_cast<float>(c.alpha), a.beta = static_cast<float>(c.beta);
  a.pdl = usesPdl();
  report(c.op, launchConvEpilogue(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

// Layouts -------------------------------------------------------------------------------------------------------------

bool isAligned(const at::Tensor& t) { return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0; }

std::vector<int64_t> channelsLastStrides(at::IntArrayRef sizes) {
  return {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
}

/// How kernels that read 16 bytes at a time see a tensor: as it lies where they can, so that a slice of channels stays
/// one, and otherwise as a copy in channels-last.
struct Layout {
  std::vector<int64_t> strides;
  bool isCopied = false;
};
Layout layoutOf(const at::Tensor& t) {
  if (t.is_contiguous(at::MemoryFormat::ChannelsLast)) return {channelsLastStrides(t.sizes()), !isAligned(t)};
  const bool isSlice = t.stride(1) == 1 && t.stride(0) % 8 == 0 && t.stride(2) % 8 == 0 && t.stride(3) % 8 == 0 &&
                       t.stride(3) >= t.size(1) && t.stride(2) >= t.stride(3) * t.size(3) &&
                       t.stride(0) >= t.stride(2) * t.size(2);
  if (isSlice && isAligned(t)) return {t.strides().vec(), false};
  return {channelsLastStrides(t.sizes()), true};
}
at::Tensor laidOut(const at::Tensor& t, const Layout& layout) {
  if (!layout.isCopied) return t;
  const at::Tensor copy = t.contiguous(at::MemoryFormat::ChannelsLast);
  return isAligned(copy) ? copy : copy.clone();
}

// A product of rows --------------------------------------------------------------------------------------------------

/// The product's activation where it has that one.
std::optional<Activation> productActivation(ConvActivation a) {
  switch (a) {
    case ConvActivation::kNone:
      return Activation::kNone;
    case ConvActivation::kGelu:
      return Activation::kGelu;
    case ConvActivation::kGeluTanh:
      return Activation::kGeluTanh;
    case ConvActivation::kSilu:
      return Activation::kSilu;
    default:
      return std::nullopt;
  }
}

/// Whether the whole call is one product of rows: a filter of one place over an image with channels last. The product
/// takes bias, residual and activation along, and is tuned among all kernels for products. (With ReLU, cuDNN's kernel
/// takes them along, too. A product adds its residual behind the activation.)
bool isProductOfRows(const ConvCall& c) {
  const auto areAll = [](at::IntArrayRef v, int64_t n) {
    return std::all_of(v.begin(), v.end(), [n](int64_t i) { return i == n; });
  };
  if (!c.isOfHalfImages() || !hopper() || c.weight.numel() == 0 || !c.hasEpilogue()) return false;
  if (c.weight.size(2) != 1 || c.weight.size(3) != 1 || !areAll(c.stride, 1) || !areAll(c.padding, 0)) return false;
  if (!productActivation(c.activation)) return false;
  c.resultSizes();  // refuses what no convolution takes
  return !given(c.residual) || (c.activation == ConvActivation::kNone && c.hasWholeResidual());
}

at::Tensor byProduct(const ConvCall& c) {
  constexpr std::array<int64_t, 4> channelsBehind{0, 2, 3, 1}, channelsInFront{0, 3, 1, 2};
  OptionalTensor residual;
  if (given(c.residual)) residual = c.residual->permute(channelsBehind);
  const Product p = productOf(c.op, c.x.permute(channelsBehind), c.weight.flatten(1), c.bias,
                              *productActivation(c.activation), residual);
  runGemm(p.args, c10::cuda::getCurrentCUDAStream());
  return p.out.permute(channelsInFront);
}

// One kernel of cuDNN's, made for the problem -------------------------------------------------------------------------

struct Chosen {
  std::shared_ptr<CudnnConvolution> kernel;  ///< null: PyTorch's way is as fast, or the only one
  int plan = 0;
};
struct ChosenKernels {
  std::mutex mutex;
  std::unordered_map<std::string, Chosen> byProblem;
};
ChosenKernels& chosenKernels() {
  static ChosenKernels all;
  return all;
}

class FusedCall {
 public:
  explicit FusedCall(const ConvCall& c)
      : c_(c), sizes_(c.resultSizes()), xLayout_(layoutOf(c.x)), weightLayout_(layoutOf(c.weight)) {
    if (given(c.residual)) residualLayout_ = layoutOf(*c.residual);
    problem_ = {.dtype = dtypeOf(c.op, c.x),
                .x = c.x.sizes().vec(),
                .xStrides = xLayout_.strides,
                .weight = c.weight.sizes().vec(),
                .weightStrides = weightLayout_.strides,
                .y = sizes_,
                .yStrides = channelsLastStrides(sizes_),
                .residualStrides = residualLayout_.strides,
                .hasBias = given(c.bias),
                .stride = c.stride.vec(),
                .padding = c.padding.vec(),
                .dilation = c.dilation.vec(),
                .activation = c.activation,
                .alpha = c.alpha,
                .beta = c.beta};
  }

  /// Whether such kernels exist at all, and there is something to fuse.
  static bool isCandidate(const ConvCall& c) {
    if (!c.isOfHalfImages() || c.x.size(1) % 8 != 0 || c.weight.size(0) % 8 != 0 || !c.hasEpilogue()) return false;
    if (given(c.residual) && !c.hasWholeResidual()) return false;
    return at::globalContext().userEnabledCuDNN() && at::cuda::getCurrentDeviceProperties()->major >= 8;
  }

  /// The result, or nothing where PyTorch's way is to be taken.
  std::optional<at::Tensor> run() {
    const int device = c10::cuda::current_device();
    const std::string key = fmt::format("{}-v{}", problem_.key(), cudnnVersion());
    Chosen chosen;
    {
      ChosenKernels& all = chosenKernels();
      const std::lock_guard lock(all.mutex);
      const auto [at, isNew] = all.byProblem.try_emplace(fmt::format("{}:{}", device, key));
      if (isNew) {
        if (isCapturing()) {
          all.byProblem.erase(at);
          return std::nullopt;
        }
        at->second = choose(key, device);
      }
      chosen = at->second;
    }
    if (!chosen.kernel) return std::nullopt;
    layOut();
    const at::Tensor y = result(), workspace = workspaceOf(*chosen.kernel, chosen.plan);
    const bool ran = chosen.kernel->run(chosen.plan, tensors(y), workspace.mutable_data_ptr(), handle());
    return ran ? std::optional(y) : std::nullopt;
  }

 private:
  static constexpr int mostPlans = 3;
  /// A kernel is taken where it is at least this much faster.
  static constexpr double worthIt = 0.98;

  static void* handle() { return at::native::getCudnnHandle(); }
  at::Tensor result() const { return at::empty(sizes_, c_.x.options(), at::MemoryFormat::ChannelsLast); }
  at::Tensor workspaceOf(const CudnnConvolution& kernel, int plan) const {
    return at::empty({static_cast<int64_t>(kernel.workspaceBytes(plan))}, c_.x.options().dtype(at::kByte));
  }
  /// Copies what has to be, once. PyTorch's way copies for itself.
  void layOut() {
    if (x_.defined()) return;
    x_ = laidOut(c_.x, xLayout_);
    weight_ = laidOut(c_.weight, weightLayout_);
    if (given(c_.residual)) residual_ = laidOut(*c_.residual, residualLayout_);
    bias_ = dense(c_.bias);
  }
  /// Of what is laid out.
  ConvTensors tensors(const at::Tensor& y) const {
    return {.x = x_.const_data_ptr(),
            .weight = weight_.const_data_ptr(),
            .bias = pointer(bias_),
            .residual = residual_.defined() ? residual_.const_data_ptr() : nullptr,
            .y = y.mutable_data_ptr()};
  }

  Chosen choose(const std::string& key, int device) {
    GemmCache& cache = cacheOf(device);
    if (const auto line = cache.find(key)) {
      int plan = 0;
      if (std::sscanf(line->c_str(), "cudnn:%d", &plan) != 1 || plan < 0) return {};
      const TuningBudget::Use use(tuningBudget());
      std::shared_ptr<CudnnConvolution> kernel = CudnnConvolution::make(problem_, handle());
      return kernel && plan < kernel->plans() && kernel->build(plan) ? Chosen{kernel, plan} : Chosen{};
    }
    if (!options().autotune || tuningBudget().isSpent(0.5)) return {};
    const TuningBudget::Use use(tuningBudget());
    return tune(cache, key);
  }

  Chosen tune(GemmCache& cache, const std::string& key) {
    layOut();
    C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
    const c10::cuda::CUDAStream stream = tuningStream();
    const c10::cuda::CUDAStreamGuard onStream(stream);
    std::shared_ptr<CudnnConvolution> kernel = CudnnConvolution::make(problem_, handle());
    if (!kernel) {
      cache.store(key, "pytorch");
      return {};
    }
    const at::Tensor expected = byPyTorch(c_);
    const double beside = timeCalls([&](int) { return byPyTorch(c_).defined(); }, stream, 1e30, 12);
    double best = beside * worthIt;
    Chosen chosen;
    for (int plan = 0; plan < std::min(kernel->plans(), mostPlans) && !tuningBudget().isSpent(0.5); ++plan) {
      // A plan takes up to a second to build: rather the next convolution's first than this one's next.
      if (chosen.kernel && tuningBudget().isSpent(0.15)) break;
      if (!kernel->build(plan)) continue;
      const at::Tensor y = result().fill_(std::numeric_limits<double>::quiet_NaN());
      const at::Tensor workspace = workspaceOf(*kernel, plan);
      const auto call = [&](int) { return kernel->run(plan, tensors(y), workspace.mutable_data_ptr(), handle()); };
      const double took = timeCalls(call, stream, best, 12);
      if (took < 0 || took >= best || !agree(y, expected)) continue;
      best = took;
      chosen = {kernel, plan};
    }
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    cache.store(key, chosen.kernel ? fmt::format("cudnn:{} {:.2f}us pytorch={:.2f}us", chosen.plan, best, beside)
                                   : fmt::format("pytorch={:.2f}us", beside));
    return chosen;
  }

  const ConvCall& c_;
  const std::vector<int64_t> sizes_;
  const Layout xLayout_, weightLayout_;
  Layout residualLayout_;
  at::Tensor x_, weight_, residual_;  ///< laid out
  OptionalTensor bias_;
  ConvProblem problem_;
};

// Operators -----------------------------------------------------------------------------------------------------------

at::Tensor convolution(const char* op, const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& residual, at::IntArrayRef stride, at::IntArrayRef padding,
                       at::IntArrayRef dilation, int64_t groups, ConvActivation activation, double alpha, double beta) {
  ops::checkConv(op, x, weight, bias, residual, stride.size(), padding.size(), dilation.size(), groups);
  const c10::cuda::CUDAGuard guard(x.device());
  dtypeOf(op, x);
  const ConvCall c{op,
                   x,
                   weight,
                   bias,
                   residual,
                   stride,
                   padding,
                   dilation,
                   groups,
                   activation,
                   alpha,
                   beta,
                   ops::convFormat(x, weight)};
  if (isProductOfRows(c)) return byProduct(c);
  if (FusedCall::isCandidate(c))
    if (std::optional<at::Tensor> y = FusedCall(c).run()) return *y;
  return byPyTorch(c);
}

at::Tensor convBiasAddRelu(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                           const OptionalTensor& residual, at::IntArrayRef stride, at::IntArrayRef padding,
                           at::IntArrayRef dilation, int64_t groups, bool relu) {
  return convolution("conv_bias_add_relu", x, weight, bias, residual, stride, padding, dilation, groups,
                     relu ? ConvActivation::kRelu : ConvActivation::kNone, 0, 0);
}

at::Tensor convActivation(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                          const OptionalTensor& residual, at::IntArrayRef stride, at::IntArrayRef padding,
                          at::IntArrayRef dilation, int64_t groups, std::string_view activation, double alpha,
                          double beta) {
  ops::checkConvActivation(activation);
  return convolution("conv_activation", x, weight, bias, residual, stride, padding, dilation, groups,
                     convActivationOf(activation), alpha, beta);
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("conv_bias_add_relu", &CompositeFallback<"conv_bias_add_relu", convBiasAddRelu>::call);
  m.impl("conv_activation", &CompositeFallback<"conv_activation", convActivation>::call);
}

}  // namespace graft::cuda
