// LastingWrites: what a run writes besides the tensors that it makes: buffers of the model (a KV cache, running
// statistics), and inputs that it changes in place. A captured run has the same effect as the model's own: each replay
// writes the buffers where they are, and writes such inputs back into the caller's tensors.
//
//   const LastingWrites writes{{cache.k, cache.v}, {0}};           // and the first input
//   if (const char* why = writes.obstacle(inputs)) ...             // this call runs without a capture
//   {
//     const SavedTensors saved(writes.buffers);                    // tries may now write to them
//     ...
//   }                                                              // they are what they were
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <vector>

namespace graft {

struct LastingWrites {
  std::vector<at::Tensor> buffers;
  std::vector<size_t> inputs;  ///< by place among the inputs; of a pytree all tensors count as written

  bool any() const { return !buffers.empty() || !inputs.empty(); }
  /// Why a run on copies of these inputs would do something else than a run on themselves, because what is written
  /// shares memory with what is read; null where it would not.
  const char* obstacle(const std::vector<c10::IValue>& given) const;
};

/// Copies of tensors, and the way back.
class SavedTensors {
 public:
  explicit SavedTensors(std::vector<at::Tensor> tensors);
  /// Copies are written back a last time. A failure is lost: then the GPU does not work any more.
  ~SavedTensors();
  SavedTensors(const SavedTensors&) = delete;
  SavedTensors& operator=(const SavedTensors&) = delete;

  /// Writes the copies back, on the current stream. Throws c10::Error.
  void restore() const;

 private:
  std::vector<at::Tensor> tensors_, copies_;
};

}  // namespace graft
