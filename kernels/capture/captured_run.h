// CapturedRun: one run of a model as a CUDA graph, for inputs of one key.
//
//   CapturedRun run(*cuda, pool, inputs, [&](const Values& in) { return model(in); }, /*constantWeights=*/true);
//   Values outputs = run.replay(inputs);      // between beginUse and endUse of the pool
//
// It owns the graph and the memory of the graph's inputs and outputs. A replay copies the caller's inputs in and copies
// the outputs out into tensors of the caller's. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/capture/cuda_graphs.h"

namespace graft {

class CapturedRun {
 public:
  using Values = std::vector<c10::IValue>;
  using Body = std::function<Values(const Values& inputs)>;
  struct Timing {
    double milliseconds = 0;  ///< on the GPU, by events around the whole graph
    size_t kernels = 0, streams = 1;
  };

  /// Captures the body with copies of `inputs`. Throws what the body throws while it runs without a capture, and
  /// CaptureError where it cannot be captured. `constantWeights`: see Captures.
  CapturedRun(const GraftCudaGraphs& cuda, void* pool, const Values& inputs, const Body& body, bool constantWeights);
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;

  /// Inputs must have the key of those that were captured. Throws CaptureError.
  Values replay(const Values& inputs);
  /// Replays once on the numbers that were captured or copied in last, and waits. `flushed`: with an empty L2 cache.
  Timing time(bool flushed);
  size_t streams() const { return cuda_.streamCount(graph_.get()); }

 private:
  struct FreeGraph {
    const GraftCudaGraphs* cuda;
    void operator()(void* graph) const { cuda->freeGraph(graph); }
  };
  void* capture(void* pool, const Body& body, bool constantWeights);
  void addCopies();
  void copyIn(const Values& inputs);
  std::vector<at::Tensor> allocateOutputs();
  Values copyOut(std::vector<at::Tensor> copied) const;

  const GraftCudaGraphs& cuda_;
  Values inputs_, outputs_;               ///< in the graph's own memory
  std::vector<at::Tensor> inputTensors_;  ///< the tensors of inputs_
  // Tensors that the graph itself copies, by index; the others are copied before and after it.
  std::vector<bool> inputIsCopied_, outputIsCopied_;
  std::vector<const void*> from_;           ///< of one replay: where the graph copies its inputs from,
  std::vector<void*> to_;                   ///< and its outputs to
  std::unique_ptr<void, FreeGraph> graph_;  ///< freed first; that waits until the memory above is no longer used
};

}  // namespace graft
