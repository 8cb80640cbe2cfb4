// own::group_norm_silu: GroupNorm and the SiLU behind it in one operator, for CPUs and (group_norm_silu.cu) CUDA.
//
// build.py compiles it, with OWN_CUDA where there is nvcc. PyTorch loads it by torch.ops.load_library, Graft by
// --library or by the rule file.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/silu.h>
#include <torch/library.h>

#include <cmath>

#ifdef OWN_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "group_norm_silu.h"
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// glibc has this one for vectors, too, with infinities and NaN as they are.
extern "C" __attribute__((simd("notinbranch"), const)) float expf(float) noexcept;
#endif

namespace {

// As the model computes it: what the loop below does not take.
at::Tensor asTwo(const at::Tensor& x, int64_t groups, const std::optional<at::Tensor>& weight,
                 const std::optional<at::Tensor>& bias, double eps) {
  return at::silu(at::group_norm(x, groups, weight, bias, eps));
}

bool isPlain(const std::optional<at::Tensor>& t, int64_t channels) {
  return t && t->scalar_type() == at::kFloat && t->is_contiguous() && t->numel() == channels;
}

// x: [batch, channels, ...], each group of channels has its own mean and variance.
at::Tensor onCpu(const at::Tensor& x, int64_t groups, const std::optional<at::Tensor>& weight,
                 const std::optional<at::Tensor>& bias, double eps) {
  const int64_t channels = x.dim() >= 2 ? x.size(1) : 0;
  if (x.scalar_type() != at::kFloat || !x.is_contiguous() || x.numel() == 0 || groups < 1 || channels % groups != 0 ||
      !isPlain(weight, channels) || !isPlain(bias, channels))
    return asTwo(x, groups, weight, bias, eps);
  at::Tensor out = at::empty_like(x);
  const int64_t inGroup = channels / groups, pixels = x.numel() / (x.size(0) * channels), n = inGroup * pixels;
  const float *from = x.const_data_ptr<float>(), *w = weight->const_data_ptr<float>(),
              *b = bias->const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, x.size(0) * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* in = from + i * n;
      double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < n; ++k) sum += in[k];
      const double mean = sum / static_cast<double>(n);
#pragma omp simd reduction(+ : squares)
      for (int64_t k = 0; k < n; ++k) squares += (in[k] - mean) * (in[k] - mean);
      const double deviation = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
      for (int64_t c = 0; c < inGroup; ++c) {
        const int64_t channel = i % groups * inGroup + c;
        const auto scale = static_cast<float>(w[channel] * deviation);
        const auto shift = static_cast<float>(b[channel] - mean * w[channel] * deviation);
        const float* row = in + c * pixels;
        float* result = to + i * n + c * pixels;
#pragma omp simd
        for (int64_t k = 0; k < pixels; ++k) {
          const float y = row[k] * scale + shift;
          result[k] = y / (1 + expf(-y));
        }
      }
    }
  });
  return out;
}

#ifdef OWN_CUDA
at::Tensor onCuda(const at::Tensor& x, int64_t groups, const std::optional<at::Tensor>& weight,
                  const std::optional<at::Tensor>& bias, double eps) {
  const int64_t channels = x.dim() >= 2 ? x.size(1) : 0;
  const bool channelsLast = x.dim() == 4 && !x.is_contiguous() && x.is_contiguous(at::MemoryFormat::ChannelsLast);
  const auto isTaken = [&](const std::optional<at::Tensor>& t) {
    return t && t->scalar_type() == x.scalar_type() && t->device() == x.device() && t->is_contiguous() &&
           t->numel() == channels;
  };
  const auto type = x.scalar_type();
  if ((type != at::kFloat && type != at::kHalf && type != at::kBFloat16) || x.numel() == 0 ||
      x.numel() / x.size(0) > (1 << 30) || (!x.is_contiguous() && !channelsLast) || groups < 1 ||
      channels % groups != 0 || x.size(0) * groups > (1 << 30) || !isTaken(weight) || !isTaken(bias))
    return asTwo(x, groups, weight, bias, eps);
  const c10::cuda::CUDAGuard onDevice(x.device());
  at::Tensor out = at::empty_like(x);
  OwnGroupNorm a{x.const_data_ptr(), weight->const_data_ptr(), bias->const_data_ptr(), out.mutable_data_ptr()};
  a.type = type == at::kHalf ? OwnType::half : type == at::kBFloat16 ? OwnType::bfloat16 : OwnType::float32;
  a.batch = static_cast<int>(x.size(0)), a.channels = static_cast<int>(channels);
  a.pixels = static_cast<int>(x.numel() / x.size(0) / channels), a.groups = static_cast<int>(groups);
  a.eps = static_cast<float>(eps), a.channelsLast = channelsLast;
  // The current stream: so the operator can be part of a CUDA graph.
  C10_CUDA_CHECK(launchOwnGroupNormSilu(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}
#else
constexpr auto onCuda = asTwo;
#endif

// Sizes and dtype alone: what Graft and torch.compile ask before anything is computed.
at::Tensor onMeta(const at::Tensor& x, int64_t, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&,
                  double) {
  return at::empty_like(x);
}

}  // namespace

TORCH_LIBRARY(own, m) {
  m.def("group_norm_silu(Tensor x, int groups, Tensor? weight, Tensor? bias, float eps) -> Tensor");
}
TORCH_LIBRARY_IMPL(own, CPU, m) { m.impl("group_norm_silu", onCpu); }
TORCH_LIBRARY_IMPL(own, CUDA, m) { m.impl("group_norm_silu", onCuda); }
TORCH_LIBRARY_IMPL(own, Meta, m) { m.impl("group_norm_silu", onMeta); }
