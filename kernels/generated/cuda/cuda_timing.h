// Times what runs on a GPU, beside each other.
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.h"
#include "kernels/generated/cuda/cuda_run.h"

namespace graft::ops {

/// Microseconds of each, in their order: the medians of several rounds in which they take turns. `inputs` are copied,
/// so that no run finds them in the caches as another left them. While launches are queued, the GPU waits: the times
/// are the GPU's alone. Threads take turns. An error where nothing can be timed.
Result<std::vector<double>> timeRuns(const std::vector<const CudaRun*>&, at::TensorList inputs);

}  // namespace graft::ops
