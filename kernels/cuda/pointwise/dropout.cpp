// graft::random_states and graft::dropout_mask on CUDA.
#include "kernels/ops/dropout.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "kernels/cuda/support.h"

namespace graft::cuda {
namespace {

/// Draws for all of them at once, as their dropouts would one after another.
at::PhiloxCudaState drawn(int64_t blocks) {
  auto* generator =
      at::get_generator_or_default<at::CUDAGeneratorImpl>(std::nullopt, at::cuda::detail::getDefaultCUDAGenerator());
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  return generator->philox_cuda_state(static_cast<uint64_t>(blocks) * 4);
}

at::Tensor randomStates(const at::Tensor& like, at::IntArrayRef blocks) {
  const c10::cuda::CUDAGuard guard(like.device());
  at::Tensor out = ops::emptyStates(like, blocks);
  const auto count = static_cast<int64_t>(blocks.size());
  const at::PhiloxCudaState state = drawn(std::accumulate(blocks.begin(), blocks.end(), int64_t{0}));
  int64_t before = 0;
  for (int64_t first = 0; first < count; first += kMaxRandomStates) {
    RandomStatesArgs a;
    a.isCaptured = state.captured_;
    if (state.captured_) {
      a.seedAt = state.seed_.ptr, a.offsetAt = state.offset_.ptr, a.offset = state.offset_intragraph_;
    } else {
      a.seed = state.seed_.val, a.offset = state.offset_.val;
    }
    a.count = static_cast<int>(std::min<int64_t>(kMaxRandomStates, count - first));
    for (int i = 0; i < a.count; ++i) {
      a.blocksBefore[i] = before;
      before += blocks[static_cast<size_t>(first + i)];
    }
    a.out = out.mutable_data_ptr<int64_t>() + 2 * first;
    report("random_states", launchRandomStates(a, c10::cuda::getCurrentCUDAStream()));
  }
  return out;
}

at::Tensor dropoutMask(const at::Tensor& states, int64_t row, at::IntArrayRef size, double p, int64_t vector,
                       int64_t threads) {
  const c10::cuda::CUDAGuard guard(states.device());
  at::Tensor out = ops::emptyMask(states, row, size, p, vector, threads);
  if (out.numel() == 0) return out;
  const at::Tensor state = states.contiguous();
  DropoutMaskArgs a;
  a.state = state.const_data_ptr<int64_t>() + 2 * row;
  a.out = out.mutable_data_ptr<bool>();
  a.count = out.numel();
  a.vector = vector, a.threads = threads;
  a.kept = static_cast<float>(1.0 - p);
  report("dropout_mask", launchDropoutMask(a, c10::cuda::getCurrentCUDAStream()));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(graft, CUDA, m) {
  m.impl("random_states", &randomStates);
  m.impl("dropout_mask", &dropoutMask);
}

}  // namespace graft::cuda
