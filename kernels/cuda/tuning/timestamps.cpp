// The device memory for the records of timestamps.cuh, and how tests/gpu/timestamps.py reads it. Empty unless
// configured with -DGRAFT_TIMESTAMPS=ON.
#ifdef GRAFT_TIMESTAMPS
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/tuning/timestamps.cuh"

namespace {
constexpr size_t kBytes = size_t{graft::cuda::kTimestampSms} * graft::cuda::kTimestampRecordsPerSm *
                          graft::cuda::kTimestampFields * sizeof(long long);
}

extern "C" {
__attribute__((visibility("default"))) void* graft_cuda_timestamps() {
  static void* records = nullptr;
  if (!records) {
    C10_CUDA_CHECK(cudaMalloc(&records, kBytes));
    C10_CUDA_CHECK(cudaMemset(records, 0, kBytes));
  }
  return records;
}

/// Waits for the GPU, then sets all records to zero.
__attribute__((visibility("default"))) void graft_cuda_timestamps_clear() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  C10_CUDA_CHECK(cudaMemset(graft_cuda_timestamps(), 0, kBytes));
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

/// Waits for the GPU, then copies all records to `to` in host memory, unless it is null. Returns their size in bytes.
__attribute__((visibility("default"))) size_t graft_cuda_timestamps_read(void* to) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  if (to) C10_CUDA_CHECK(cudaMemcpy(to, graft_cuda_timestamps(), kBytes, cudaMemcpyDeviceToHost));
  return kBytes;
}
}
#endif
