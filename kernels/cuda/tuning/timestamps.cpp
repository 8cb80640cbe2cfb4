// The memory that stamps.cuh's records go to, for tests/gpu/timestamps.py. Nothing unless configured with
// -DGRAFT_STAMPS=ON.
#ifdef GRAFT_STAMPS
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/tuning/timestamps.cuh"

namespace {
constexpr size_t kBytes = size_t{graft::cuda::kStampedProcessors} * graft::cuda::kStampsPerProcessor *
                          graft::cuda::kStampFields * sizeof(long long);
}

extern "C" {
__attribute__((visibility("default"))) void* graft_cuda_stamps() {
  static void* records = nullptr;
  if (!records) {
    C10_CUDA_CHECK(cudaMalloc(&records, kBytes));
    C10_CUDA_CHECK(cudaMemset(records, 0, kBytes));
  }
  return records;
}

/// Waits for the GPU, then forgets all stamps.
__attribute__((visibility("default"))) void graft_cuda_stamps_clear() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemset(graft_cuda_stamps(), 0, kBytes));
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

/// Waits for the GPU, then copies all records to memory of the host; returns how many bytes those are.
__attribute__((visibility("default"))) size_t graft_cuda_stamps_read(void* to) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  if (to) C10_CUDA_CHECK(cudaMemcpy(to, graft_cuda_stamps(), kBytes, cudaMemcpyDeviceToHost));
  return kBytes;
}
}
#endif
