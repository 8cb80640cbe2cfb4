#pragma once
// ExclusiveStreams: CUDA streams of one GPU that only their holder uses.
//
//   ExclusiveStreams streams(device);
//   const c10::cuda::CUDAStreamGuard onStream(streams.get(0));
//
// Captures need them. What another thread launches on a stream that is being captured would become part of the graph
// and not run; and graphs that run at the same time must not share the workspace that cuBLAS keeps for each stream.
// PyTorch's own pool of 32 streams cannot serve: it hands each stream to several users.
#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace graft::cuda {

class ExclusiveStreams {
 public:
  explicit ExclusiveStreams(c10::DeviceIndex device) : device_(device) {}
  /// Makes the streams available to other holders. Graphs that were captured on them must not be running.
  ~ExclusiveStreams();
  ExclusiveStreams(const ExclusiveStreams&) = delete;
  ExclusiveStreams& operator=(const ExclusiveStreams&) = delete;

  /// Stream i, from 0 on. The device must be the current one. Throws c10::Error.
  c10::cuda::CUDAStream get(size_t i);
  /// Those that were got so far.
  const std::vector<cudaStream_t>& all() const { return streams_; }

 private:
  const c10::DeviceIndex device_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace graft::cuda
