// Compiled: machine code for one group at given dtypes, sizes and strides, and how to run it. Never changes: threads
// share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft::ops {

class Compiled {
 public:
  /// `graph` has every value's dtype and sizes, `inputs` and `outputs` are what ATen's operators take and give: outputs
  /// of a kernel get the strides that these have. An error says why no kernel can be made.
  static Result<std::shared_ptr<const Compiled>> make(const Graph& graph, at::TensorList inputs,
                                                      at::TensorList outputs);

  /// Throws what PyTorch throws where an index is out of range or an integer is divided by zero.
  std::vector<at::Tensor> run(at::TensorList inputs) const;
  ~Compiled();

 private:
  struct Code;
  explicit Compiled(std::unique_ptr<Code>);
  std::unique_ptr<Code> code_;
};

}  // namespace graft::ops
