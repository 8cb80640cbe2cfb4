#include "kernels/cuda/graphs/exclusive_streams.h"

#include <c10/cuda/CUDAException.h>

#include <map>
#include <mutex>

namespace graft::cuda {
namespace {

/// Streams without a holder. They are never destroyed: the allocator and cuBLAS keep memory by stream, which the next
/// holder can use.
struct FreeStreams {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::vector<cudaStream_t>> streams;
};
FreeStreams& freeStreams() {
  static auto* all = new FreeStreams;  // never destroyed, because holders may live until the process ends
  return *all;
}

}  // namespace

ExclusiveStreams::~ExclusiveStreams() {
  const std::scoped_lock lock(freeStreams().mutex);
  auto& free = freeStreams().streams[device_];
  free.insert(free.end(), streams_.rbegin(), streams_.rend());  // the next holder's stream 0 is this one's
}

c10::cuda::CUDAStream ExclusiveStreams::get(size_t i) {
  while (streams_.size() <= i) {
    cudaStream_t stream = nullptr;
    {
      const std::scoped_lock lock(freeStreams().mutex);
      auto& free = freeStreams().streams[device_];
      if (!free.empty()) {
        stream = free.back();
        free.pop_back();
      }
    }
    if (!stream) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
  }
  return c10::cuda::getStreamFromExternal(streams_[i], device_);
}

}  // namespace graft::cuda
