// The devices of this machine, and the memory that a run takes.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/torch/executor.h"

namespace graft {

struct DeviceInfo {
  std::string name;         ///< as --device takes it: "cpu", "cuda:0"
  std::string description;  ///< "2 threads", "NVIDIA H200"
};
/// The CPU, then the GPUs that the driver shows. Asks the driver alone: LibTorch's CUDA half, which takes seconds to
/// load, is not touched; whether it works there shows when something runs.
std::vector<DeviceInfo> devices();

/// Bytes that a run takes. Intermediate tensors count by storage: views of one tensor are counted once. Memory that
/// kernels take for themselves while they run is not counted.
struct MemoryUse {
  size_t weights = 0;  ///< of weights that nodes use, in the program's dtype
  /// The most alive at once, outputs included, inputs and weights not: while a node runs, what it reads and what it
  /// makes.
  size_t intermediates = 0;
};
Result<MemoryUse> memoryUse(const Graph&, const Program&, const TensorSet& inputs);

}  // namespace graft
