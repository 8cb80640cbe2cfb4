// Compiled: machine code for one group at given dtypes, sizes and strides, and how to run it. Never changes: threads
// share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/ir/graph.h"

namespace graft::ops {

class Compiled {
 public:
  /// `choice`: what a person has chosen for the kernel; it counts where it fits this call. `graph` has every value's
  /// dtype and sizes; `inputs` and `outputs` are what ATen's operators take and give: outputs
  /// of a kernel get the strides that these have. `sizes`: the graph's integer inputs. An error says why no kernel can
  /// be made.
  static Result<std::shared_ptr<const Compiled>> make(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                      at::TensorList outputs, const KernelChoice& choice = {});

  /// For inputs of the same dtypes, sizes and strides. Nothing where a check failed, such as an index out of range:
  /// ATen's operators then say what is wrong.
  std::vector<at::Tensor> run(at::TensorList inputs) const;
  ~Compiled();

 private:
  struct Code;
  explicit Compiled(std::unique_ptr<Code>);
  std::unique_ptr<Code> code_;
};

}  // namespace graft::ops
