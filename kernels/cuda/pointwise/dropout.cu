// The kernels of graft::random_states and graft::dropout_mask.
#include <algorithm>

#include "core/base/numbers/philox.h"
#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void statesKernel(const RandomStatesArgs a) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= a.count) return;
  const int64_t seed = a.isCaptured ? *a.seedAt : static_cast<int64_t>(a.seed);
  const uint64_t offset = a.isCaptured ? static_cast<uint64_t>(*a.offsetAt) + a.offset : a.offset;
  a.out[2 * i] = seed;
  a.out[2 * i + 1] = static_cast<int64_t>(offset / 4) + a.blocksBefore[i];
}

__global__ void __launch_bounds__(kThreads) maskKernel(const DropoutMaskArgs a) {
  const auto seed = static_cast<uint64_t>(a.state[0]), block = static_cast<uint64_t>(a.state[1]);
  const int64_t step = gridDim.x * int64_t{kThreads};
  for (int64_t e = blockIdx.x * int64_t{kThreads} + threadIdx.x; e < a.count; e += step)
    a.out[e] = dropoutUniform(seed, block, static_cast<uint64_t>(e), static_cast<uint64_t>(a.vector),
                              static_cast<uint64_t>(a.threads)) < a.kept;
}

}  // namespace

cudaError_t launchRandomStates(const RandomStatesArgs& a, cudaStream_t stream) {
  statesKernel<<<1, kMaxRandomStates, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t launchDropoutMask(const DropoutMaskArgs& a, cudaStream_t stream) {
  const int64_t blocks = std::clamp<int64_t>((a.count + kThreads - 1) / kThreads, 1, 4096);
  maskKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace graft::cuda
