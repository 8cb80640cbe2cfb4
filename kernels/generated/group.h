// Group: what one call of graft::generated computes, read from its program (core/compile/fusion/group_text.h).
//
//   Group::of(program)->run(inputs, sizes)
//
// Types in the program are those of the model that it was made from. A call may bring other dtypes and sizes: the group
// is typed, and its kernel made, anew for each set of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"
#include "kernels/generated/aten_run.h"
#include "kernels/generated/compiled.h"
#include "kernels/generated/cuda_compiled.h"

namespace graft::ops {

class Group {
 public:
  /// The group of that program, which is read once in a process. Throws c10::Error with a sentence where the text is no
  /// program, is of a later version, or calls operators that this PyTorch does not have. Thread-safe, as the rest.
  static std::shared_ptr<Group> of(std::string_view program);

  /// By a generated kernel where the tensors are dense ones, all on the CPU or all on one GPU, and one can be made,
  /// otherwise as ATen operators.
  std::vector<at::Tensor> run(at::TensorList inputs, at::IntArrayRef sizes);
  std::vector<at::Tensor> runAten(at::TensorList inputs, at::IntArrayRef sizes) const { return aten_(inputs, sizes); }

 private:
  explicit Group(std::unique_ptr<Graph> graph) : graph_(std::move(graph)), aten_(*graph_) {}
  std::vector<at::Tensor> runFirst(at::TensorList inputs, at::IntArrayRef sizes, const std::string& key);
  std::vector<at::Tensor> runOnCuda(at::TensorList inputs, at::IntArrayRef sizes);  // cuda_group.cpp
  Graph typed(at::TensorList inputs, at::IntArrayRef sizes, std::vector<at::Tensor>& results) const;

  /// A call whose kind comes after so many others runs as ATen operators: its kernel would cost more than it saves.
  static constexpr size_t mostKernels = 32;
  std::unique_ptr<Graph> graph_;  // aten_ refers to it
  AtenRun aten_;
  std::mutex mutex_;  // guards compiled_ and onCuda_
  /// By what a kernel is made for: dtypes, sizes and strides. Null: none can be made, the ATen operators run.
  std::unordered_map<std::string, std::shared_ptr<const Compiled>> compiled_;
  std::unordered_map<std::string, std::shared_ptr<const CudaCompiled>> onCuda_;  // likewise
};

}  // namespace graft::ops
