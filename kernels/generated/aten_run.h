// Runs a group's operators one by one, as ATen has them: what a generated kernel replaces, and what takes its place
// where none can be made. Through the dispatcher alone, so that meta and fake tensors, and autograd, pass.
//
//   AtenRun run(graph);                            // resolves the operators once; throws where one is missing
//   std::vector<at::Tensor> out = run(inputs, sizes);
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <functional>
#include <vector>

#include "core/ir/graph.h"

namespace graft::ops {

class AtenRun {
 public:
  /// `graph` is one that parseGroup() has accepted, and must outlive it. Throws c10::Error with a sentence where this
  /// PyTorch does not have an operator, or has it with other arguments.
  explicit AtenRun(const Graph& graph);

  using See = std::function<void(ValueId, const c10::IValue&)>;
  /// One tensor for each return of the graph. Its inputs are the tensors and the sizes, in their order. `see` is shown
  /// each value that is computed. Tensors that the group makes itself are made on the first input's device.
  std::vector<at::Tensor> operator()(at::TensorList inputs, at::IntArrayRef sizes, const See& see = {}) const;

 private:
  struct Step {
    NodeId node;
    std::function<void(torch::jit::Stack&)> call;  // none: an item of a list
    const c10::FunctionSchema* schema = nullptr;
  };
  const Graph& graph_;
  std::vector<Step> steps_;
};

}  // namespace graft::ops
