#pragma once
// What the GEMM tuner times with (gemm/gemm_tuner.h): scratch memory, copies of weights, a stream, and timed replays.
//
//   const auto timed = timeCandidates(count, [&](int candidate, double limit, int replays) {
//     return timeCalls([&](int call) { return run(candidate, weights[call]); }, tuningStream(), limit, replays);
//   });                                                       // {microseconds, candidate}, the fastest first
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tuning/gemm_cache.h"

namespace graft::cuda {

// A buffer from the caching allocator, for the current stream (and, under capture, from the graph's memory pool).
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  void* get() const { return data_.get(); }

 private:
  c10::DataPtr data_;
};

// Products with equal keys are the same problem for the tuner. It names dtype, shape, strides, alignment and options,
// and is written to the cache on disk.
std::string keyOf(const GemmArgs& a);

// Copies of a product's weights, so many that calls which use them in turn read from memory rather than from the L2
// cache, as in a model larger than the cache.
class WeightCopies {
 public:
  WeightCopies(const GemmArgs& a, cudaStream_t stream);
  const void* operator[](int call) const { return copies_[call % copies_.size()]; }

 private:
  std::vector<Scratch> buffers_;
  std::vector<const void*> copies_;
};

// The choices on disk for that GPU.
GemmCache& cacheOf(int device);

// The stream for tuning on the current GPU.
c10::cuda::CUDAStream tuningStream();

// The median time of call(0), call(1), ... in microseconds per call, from `replays` replays of a CUDA graph of them.
// Negative if a call returns false, which means that it is not supported. Stops early once it is slower than `limit`.
double timeCalls(const std::function<bool(int)>& call, c10::cuda::CUDAStream stream, double limit, int replays);

// Times candidates 0 .. count-1 by time(candidate, limit, replays), and the six fastest again with more replays,
// because eight replays often cannot tell them apart. Returns (microseconds, candidate), the fastest first, without
// those that are not supported.
std::vector<std::pair<double, int>> timeCandidates(int count, const std::function<double(int, double, int)>& time);

}  // namespace graft::cuda
