// graft::random_states and graft::dropout_mask: a dropout in two steps. The first one draws from PyTorch's generator,
// once for all dropouts of a graph. The second one follows from that alone, so a generated kernel computes it wherever
// the mask is read, and nobody stores it.
#include "kernels/ops/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <mutex>

#include "core/base/numbers/philox.h"

namespace graft::ops {
namespace {

/// int64 [draws, 2]: of each draw its seed, and its first block of Philox. On a CPU each draw has a seed of its own.
at::Tensor randomStates(const at::Tensor& like, at::IntArrayRef blocks) {
  at::Tensor out = emptyStates(like, blocks);
  auto* generator =
      at::get_generator_or_default<at::CPUGeneratorImpl>(std::nullopt, at::detail::getDefaultCPUGenerator());
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  int64_t* to = out.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < blocks.size(); ++i) {
    to[2 * i] = static_cast<int64_t>(generator->random64());
    to[2 * i + 1] = 0;
  }
  return out;
}

at::Tensor dropoutMask(const at::Tensor& states, int64_t row, at::IntArrayRef size, double p, int64_t vector,
                       int64_t threads) {
  at::Tensor out = emptyMask(states, row, size, p, vector, threads);
  const at::Tensor state = states.contiguous();
  const int64_t* at = state.const_data_ptr<int64_t>() + 2 * row;
  const auto seed = static_cast<uint64_t>(at[0]), block = static_cast<uint64_t>(at[1]);
  const auto kept = static_cast<float>(1.0 - p);
  bool* to = out.mutable_data_ptr<bool>();
  at::parallel_for(0, out.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e)
      to[e] = dropoutUniform(seed, block, static_cast<uint64_t>(e), static_cast<uint64_t>(vector),
                             static_cast<uint64_t>(threads)) < kept;
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.def("random_states(Tensor like, int[] blocks) -> Tensor",
        {at::Tag::pt2_compliant_tag, at::Tag::nondeterministic_seeded});
  m.impl("random_states", torch::dispatch(c10::DispatchKey::CPU, &randomStates));
  m.impl("random_states", torch::dispatch(c10::DispatchKey::Meta, &emptyStates));
  m.def("dropout_mask(Tensor states, int row, int[] size, float p, int vector, int threads) -> Tensor",
        {at::Tag::pt2_compliant_tag});
  m.impl("dropout_mask", torch::dispatch(c10::DispatchKey::CPU, &dropoutMask));
  m.impl("dropout_mask", torch::dispatch(c10::DispatchKey::Meta, &emptyMask));
}

}  // namespace graft::ops
