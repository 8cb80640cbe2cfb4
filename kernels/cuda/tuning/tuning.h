#pragma once
// Trying out ways to compute the same thing, for runGemm: memory, clocks and a race.
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// A buffer of the caching allocator on the current stream (and pool, under capture).
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  void* get() const { return data_.get(); }

 private:
  c10::DataPtr data_;
};

// What makes two products the same problem for timing.
std::string keyOf(const GemmArgs& a);

// Copies of a product's weights, enough of them that in turn they come from memory, as in a model larger than the L2.
class WeightCopies {
 public:
  WeightCopies(const GemmArgs& a, cudaStream_t stream);
  const void* operator[](int call) const { return at_[call % at_.size()]; }

 private:
  std::vector<Scratch> kept_;
  std::vector<const void*> at_;
};

// The stream that ways are tried on, one for each GPU.
c10::cuda::CUDAStream tuningStream();

// Median time of call(0), call(1), ... replayed as a graph, in microseconds a call; negative if one returns false,
// which means that the way does not apply. Ends early once it is slower than `giveUp`.
double timeCalls(const std::function<bool(int)>& call, c10::cuda::CUDAStream stream, double giveUp, int replays);

// Times ways 0 .. count-1 by time(way, giveUp, replays), the best few once more and longer: they are often closer
// together than eight replays can tell. Microseconds and way, the fastest first.
std::vector<std::pair<double, int>> race(int count, const std::function<double(int, double, int)>& time);

}  // namespace graft::cuda
