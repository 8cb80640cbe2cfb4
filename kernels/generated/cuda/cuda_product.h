// A group with a matrix product on a GPU: one generated kernel that computes what is behind the product too, or a
// library's product and a generated kernel behind it. Both are timed on the machine where they run, and the faster one
// stays. The code cache keeps what was found.
#pragma once

#include <memory>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "kernels/generated/cuda/cuda_run.h"
#include "kernels/generated/shared_kernel.h"

namespace graft::ops {

/// `graph` has every value's dtype and sizes, and one matrix product; `seen`: what ATen's operators gave for these
/// inputs. An error says why no kernel can be made. Waits for the GPU.
Result<std::shared_ptr<const CudaRun>> makeCudaProduct(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                       const Seen& seen);

}  // namespace graft::ops
