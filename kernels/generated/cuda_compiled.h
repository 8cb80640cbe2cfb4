// CudaCompiled: generated kernels on a GPU for one group at given dtypes, sizes and strides, and how to run them. Never
// changes: threads share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft::ops {

class CudaCompiled {
 public:
  /// `graph` has every value's dtype and sizes; `inputs` lie on one GPU, `outputs` are what ATen's operators give for
  /// them. `sizes`: the graph's integer inputs. An error says why no kernel can be made.
  static Result<std::shared_ptr<const CudaCompiled>> make(const Graph& graph, at::TensorList inputs,
                                                          at::IntArrayRef sizes, at::TensorList outputs);

  /// For inputs of the same dtypes, sizes, strides and alignment on the same GPU. Launches on the current stream and
  /// does not wait, so a CUDA graph may capture it. Throws c10::Error where a launch fails.
  std::vector<at::Tensor> run(at::TensorList inputs) const;
  ~CudaCompiled();

  /// The power of two, at most 16, that divides a tensor's address: part of what a kernel is made for.
  static int64_t alignmentOf(const at::Tensor&);
  /// Whether a CUDA graph is being captured on the current stream of the tensor's GPU: nothing can be compiled then.
  static bool isCapturing(const at::Tensor&);

 private:
  struct Code;
  explicit CudaCompiled(std::unique_ptr<Code>);
  std::unique_ptr<Code> code_;
};

}  // namespace graft::ops
