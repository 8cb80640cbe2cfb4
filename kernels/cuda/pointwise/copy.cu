// Several copies within a GPU's memory as one kernel. A captured graph copies its inputs and outputs with it
// (graphs/graph_copies.h).
#include <algorithm>

#include "kernels/cuda/common.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 256;
/// Per copy: enough to saturate the memory bandwidth.
constexpr int64_t kMostBlocks = 264;

__global__ void __launch_bounds__(kThreads) copies(const CopyArgs a) {
  const int i = static_cast<int>(blockIdx.y);
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x, step = gridDim.x * int64_t{kThreads};
  auto* to = static_cast<char*>(a.to[i]);
  const auto* from = static_cast<const char*>(a.from[i]);
  const int64_t bytes = a.bytes[i];
  int64_t done = 0;
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % sizeof(uint4) == 0) {
    const int64_t words = bytes / static_cast<int64_t>(sizeof(uint4));
    for (int64_t w = first; w < words; w += step)
      reinterpret_cast<uint4*>(to)[w] = reinterpret_cast<const uint4*>(from)[w];
    done = words * static_cast<int64_t>(sizeof(uint4));
  }
  for (int64_t b = done + first; b < bytes; b += step) to[b] = from[b];
}

}  // namespace

cudaKernelNodeParams copyNode(const CopyArgs& a) {
  const int64_t most = *std::max_element(a.bytes, a.bytes + a.count);
  const int64_t blocks = std::clamp<int64_t>(most / (kThreads * int64_t{sizeof(uint4)}), 1, kMostBlocks);
  cudaKernelNodeParams p = {};
  p.func = reinterpret_cast<void*>(copies);
  p.gridDim = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(a.count));
  p.blockDim = dim3(kThreads);
  return p;
}

}  // namespace graft::cuda
