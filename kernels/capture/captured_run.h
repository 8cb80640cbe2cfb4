// CapturedRun: one run of a model as a CUDA graph, for inputs of one key.
//
//   CapturedRun run(*cuda, pool, inputs, body, {.constantWeights = true});
//   Values outputs = run.replay(inputs);      // between beginUse and endUse of the pool
//
// It owns the graph and the memory of the graph's inputs and outputs. A replay copies the caller's inputs in and copies
// the outputs out into tensors of the caller's. A body may write to buffers and inputs (LastingWrites): capturing
// leaves them as they were, and each replay has the effect of one run. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/capture/cuda_graphs.h"
#include "kernels/capture/lasting_writes.h"

namespace graft {

/// What the caller knows of a body.
struct BodyFacts {
  /// A promise that no kernel of the body writes the weights and biases of graft:: operators, so that a kernel may load
  /// them while the previous one still runs.
  bool constantWeights = false;
  LastingWrites writes = {};
};

class CapturedRun {
 public:
  using Values = std::vector<c10::IValue>;
  using Body = std::function<Values(const Values& inputs)>;
  struct Timing {
    double milliseconds = 0;  ///< on the GPU, by events around the whole graph
    size_t kernels = 0, streams = 1;
  };

  /// Captures the body with copies of `inputs`. Throws what the body throws while it runs without a capture, and
  /// CaptureError where it cannot be captured. What the body writes is then what it was before, either way.
  CapturedRun(const GraftCudaGraphs& cuda, void* pool, const Values& inputs, const Body& body, BodyFacts facts);
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;

  /// Inputs must have the key of those that were captured. Throws CaptureError, and c10::Error where memory for the
  /// outputs runs out; nothing was written then.
  Values replay(const Values& inputs);
  /// Replays once on the numbers that were captured or copied in last, and waits. `flushed`: with an empty L2 cache.
  /// What the body writes is put back afterwards, so each timed run begins with the same numbers.
  Timing time(bool flushed);
  size_t streams() const { return cuda_.streamCount(graph_.get()); }

 private:
  struct FreeGraph {
    const GraftCudaGraphs* cuda;
    void operator()(void* graph) const { cuda->freeGraph(graph); }
  };
  /// Where an output lies: in the graph's memory, in a buffer that the body writes, or in an input that it writes.
  struct Output {
    bool isCopied = false;               ///< by the graph itself; otherwise after it
    bool isBuffer = false;               ///< it is handed out as it is
    std::optional<size_t> ofInput = {};  ///< it is handed out as a view of the caller's tensor
  };
  void* capture(void* pool, const Body& body);
  void findOutputs();
  void addCopies();
  void copyIn(const Values& inputs);
  void copyBack(const Values& inputs);
  std::vector<at::Tensor> allocateOutputs();
  Values copyOut(const std::vector<at::Tensor>& own, const Values& inputs) const;
  std::vector<at::Tensor> writtenTensors() const;

  const GraftCudaGraphs& cuda_;
  const BodyFacts facts_;
  Values inputs_, outputs_;               ///< in the graph's own memory
  std::vector<at::Tensor> inputTensors_;  ///< the tensors of inputs_
  // Tensors that the graph itself copies, by index; the others are copied before and after it.
  std::vector<bool> inputIsCopied_, inputIsWritten_;
  std::vector<Output> outputKinds_;
  std::vector<const void*> from_;           ///< of one replay: where the graph copies its inputs from,
  std::vector<void*> to_;                   ///< and its outputs and the inputs that it writes to
  std::unique_ptr<void, FreeGraph> graph_;  ///< freed first; that waits until the memory above is no longer used
};

}  // namespace graft
