#include "kernels/cuda/support.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <cstdlib>
#include <string_view>

namespace graft::cuda {
namespace {

bool switchedOff(const char* name) {
  const char* value = std::getenv(name);
  return value && std::string_view(value) == "0";
}

}  // namespace

Options& options() {
  thread_local Options o = [] {
    Options made;
    made.pdl = !switchedOff("GRAFT_PDL");
    made.autotune = !switchedOff("GRAFT_AUTOTUNE");
    return made;
  }();
  return o;
}

bool hopper() {
#ifdef GRAFT_BUILT_FOR_HOPPER
  const auto* p = at::cuda::getCurrentDeviceProperties();
  return p->major == 9 && p->minor == 0;
#else
  return false;
#endif
}

Rows asRows(const at::Tensor& t) {
  Rows r;
  const auto sizes = t.sizes(), strides = t.strides();
  const int64_t last = t.dim() - 1;
  bool fits = sizes[last] == 1 || strides[last] == 1;
  int64_t stride = -1, expected = -1;
  for (int64_t d = last - 1; d >= 0 && fits; --d) {
    if (sizes[d] == 1) continue;
    if (stride < 0) {
      stride = strides[d];
    } else if (strides[d] != expected) {
      fits = false;
    }
    expected = strides[d] * sizes[d];
  }
  if (stride < 0) stride = sizes[last];
  if (stride < sizes[last]) fits = false;  // rows that overlap, or one row broadcast
  r.tensor = fits ? t : t.contiguous();
  r.columns = sizes[last];
  r.stride = fits ? stride : sizes[last];
  for (int64_t d = 0; d < last; ++d) r.rows *= sizes[d];
  return r;
}

MaskArg maskArg(const OptionalTensor& mask, at::IntArrayRef sizes, at::Tensor& kept) {
  MaskArg m;
  if (!given(mask)) return m;
  kept = mask->scalar_type() == at::kDouble ? mask->to(at::kFloat) : *mask;
  switch (kept.scalar_type()) {
    case at::kBool:
      m.kind = MaskKind::kBool;
      break;
    case at::kHalf:
      m.kind = MaskKind::kHalf;
      break;
    case at::kBFloat16:
      m.kind = MaskKind::kBfloat16;
      break;
    case at::kFloat:
      m.kind = MaskKind::kFloat;
      break;
    default:
      TORCH_CHECK(false, "graft: a mask of ", kept.scalar_type(),
                  " is not supported on CUDA; use bool or a floating dtype");
  }
  const at::Tensor wide = kept.expand(sizes);
  for (int d = 0; d < 4; ++d) m.stride[d] = wide.size(d) == 1 ? 0 : wide.stride(d);
  m.data = kept.const_data_ptr();
  return m;
}

bool usesTf32() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}

bool isCapturing() noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(), &status) != cudaSuccess) (void)cudaGetLastError();
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace graft::cuda

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("cuda_options(*, bool? pdl=None, bool? constant_weights=None, bool? autotune=None) -> ()",
        [](std::optional<bool> pdl, std::optional<bool> constantWeights, std::optional<bool> autotune) {
          auto& o = graft::cuda::options();
          if (pdl) o.pdl = *pdl;
          if (constantWeights) o.constantWeights = *constantWeights;
          if (autotune) o.autotune = *autotune;
        });
}
