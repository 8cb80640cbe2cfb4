// Captures: a cache of a model's runs on one GPU as CUDA graphs, one for each key of its inputs (capture_key.h). The
// first run with a key is captured, later ones replay the graph.
//
//   Captures captures(*cuda, /*device=*/0, /*limit=*/16, {.constantWeights = true});
//   auto outputs = captures.run(inputs, [&](const std::vector<c10::IValue>& in) { return model(in); });
//
// The captures share one pool of memory. Beyond `limit` the least recently used one is freed. When the GPU runs out of
// memory, all are freed before the error is rethrown. Thread-safe: threads take turns, and streams wait for each other.
//
// libgraft_ops.so (kernels/runner) and the program (core/torch/run/cuda_runner.cpp) each link a copy of this code.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/capture/capture_error.h"
#include "kernels/capture/capture_key.h"
#include "kernels/capture/captured_run.h"
#include "kernels/capture/cuda_graphs.h"

namespace graft {

class Captures {
 public:
  using Values = CapturedRun::Values;
  using Body = CapturedRun::Body;
  using Timing = CapturedRun::Timing;

  /// `facts`: of all bodies that run() and time() are given.
  Captures(const GraftCudaGraphs& cuda, int device, size_t limit, BodyFacts facts);
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  /// The outputs belong to the caller. `key` is the captureKey of the inputs. Throws CaptureError, and what the body
  /// throws outside of the capture. After an error that isOutOfMemory, no captures are left and the allocator's cache
  /// is empty, so that the model itself may fit into memory.
  Values run(const Values& inputs, const CaptureKey& key, const Body&);
  Values run(const Values& inputs, const Body& body) { return run(inputs, captureKey(inputs, device_), body); }
  /// Replays once, as CapturedRun::time does; captures first where needed.
  Timing time(const Values& inputs, const Body&, bool flushed);

  bool has(const CaptureKey&);
  size_t size();
  size_t maxStreams();  ///< the most streams of any capture; 1 where there is none
  void setLimit(size_t);
  void clear();
  /// Clears and empties the allocator's cache. Returns the keys of the captures that were freed.
  std::vector<CaptureKey> releaseMemory();

 private:
  struct Entry {
    CaptureKey key;
    CapturedRun run;
    template <class... Args>
    explicit Entry(CaptureKey k, Args&&... args) : key(std::move(k)), run(std::forward<Args>(args)...) {}
  };
  template <class F>
  auto withLock(const F& f) -> decltype(f());
  CapturedRun& findOrCapture(const Values& inputs, const CaptureKey& key, const Body&);
  void shrinkTo(size_t count);
  void freeAll();

  const GraftCudaGraphs& cuda_;
  int device_;
  size_t limit_;
  const BodyFacts facts_;
  void* pool_ = nullptr;  ///< while there are captures, and while one is made
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< most recently used first
  std::map<CaptureKey, std::list<Entry>::iterator> byKey_;
};

}  // namespace graft
