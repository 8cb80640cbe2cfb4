// Group: what one call of graft::generated computes, read from its program (core/compile/fusion/group_text.h).
//
//   Group::of(program)->run(inputs, sizes)
//
// Types in the program are those of the model that it was made from. A call may bring other dtypes, sizes and strides.
// The first kind of call gets a kernel of its own. Where a later kind differs from a known one in sizes, a kernel with
// sizes as arguments is made, which serves all calls like these. What no such kernel serves gets one of its own again.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/compile/fusion/product_split.h"
#include "core/ir/graph.h"
#include "kernels/generated/aten_run.h"
#include "kernels/generated/compiled.h"
#include "kernels/generated/cuda/cuda_run.h"
#include "kernels/generated/shared_kernel.h"

namespace graft::ops {

class CudaCompiled;

class Group {
 public:
  /// The group of that program, which is read once in a process. Throws c10::Error with a sentence where the text is no
  /// program, is of a later version, or calls operators that this PyTorch does not have. Thread-safe, as the rest.
  static std::shared_ptr<Group> of(std::string_view program);

  /// By a generated kernel where the tensors are dense ones, all on the CPU or all on one GPU, and one can be made,
  /// otherwise as ATen operators.
  std::vector<at::Tensor> run(at::TensorList inputs, at::IntArrayRef sizes);
  /// For each part of the inputs, the results of run(): into `results`, which are tensors of their own or inputs of
  /// that part. Throws c10::Error where the numbers of tensors do not fit.
  void runParts(at::TensorList inputs, at::TensorList results);
  std::vector<at::Tensor> runAten(at::TensorList inputs, at::IntArrayRef sizes) const { return aten_(inputs, sizes); }

 private:
  Group(std::unique_ptr<Graph> graph, KernelChoice choice, bool isAnyLayout)
      : graph_(std::move(graph)),
        choice_(std::move(choice)),
        aten_(*graph_),
        hasProduct_(holdsProduct(*graph_)),
        isAnyLayout_(isAnyLayout) {}
  std::vector<at::Tensor> runFirst(at::TensorList inputs, at::IntArrayRef sizes, const std::string& key);
  std::vector<at::Tensor> runOnCuda(at::TensorList inputs, at::IntArrayRef sizes);  // cuda_group.cpp
  bool isElementwise();
  bool runPartsOnCuda(at::TensorList inputs, at::TensorList results, size_t parts);  // cuda_group_parts.cpp
  std::vector<at::Tensor> run(const Compiled&, at::TensorList inputs, at::IntArrayRef sizes) const;
  bool find(const std::string& key, std::shared_ptr<const Compiled>&);
  void remember(const std::string& key, std::shared_ptr<const Compiled>, bool isShared);
  bool isServed(const CallKind&);
  std::shared_ptr<const Compiled> bind(const CallKind&, const Seen&);
  std::shared_ptr<const Compiled> make(const CallKind&, at::TensorList inputs, at::IntArrayRef sizes, const Seen&,
                                       const std::string& key);
  std::shared_ptr<const Compiled> makeShared(const CallKind&, const std::vector<std::vector<int64_t>>& rows,
                                             at::TensorList inputs, at::IntArrayRef sizes, const Seen&);
  KernelChoice choiceFor(at::TensorList inputs) const;
  std::vector<Dim> declaredNumbers(at::TensorList inputs, const CallKind&) const;
  Graph typed(at::TensorList inputs, at::IntArrayRef sizes, const Seen&) const;

  /// After so many attempts, calls that no kernel serves run as ATen operators: a kernel would cost more than it saves.
  static constexpr size_t mostKernels = 32;
  static constexpr size_t mostKinds = 4096;
  std::unique_ptr<Graph> graph_;  // aten_ refers to it
  KernelChoice choice_;
  AtenRun aten_;
  /// Kernels with a matrix product are a GPU's. Elsewhere ATen's operators run, whose products are a library's.
  bool hasProduct_ = false;
  bool isAnyLayout_ = false;  ///< images may lie with channels last
  std::once_flag elementwiseAsked_;
  bool isElementwise_ = false;

  struct Entry {
    std::shared_ptr<const Compiled> kernel;  // null: none can be made, the ATen operators run
    bool isShared = false;                   // its code belongs to one of shared_
  };
  std::mutex mutex_;                                 // guards the next four
  std::unordered_map<std::string, Entry> compiled_;  // by dtypes, sizes and strides
  std::vector<std::shared_ptr<const SharedKernel>> shared_;
  std::unordered_map<std::string, std::shared_ptr<const CudaRun>> onCuda_;  // by kind, GPU and alignment
  struct PartKernels {                                                      // null: none can be made
    std::shared_ptr<const CudaCompiled> aligned, unaligned;
  };
  std::unordered_map<std::string, PartKernels> inParts_;  // on GPUs, by dtypes and GPU
  std::atomic<bool> metaTells_ = true;                    // meta tensors get the sizes and strides that others get

  std::mutex making_;  // guards what follows; comes before mutex_
  size_t made_ = 0;
  std::unordered_map<std::string, std::vector<std::vector<int64_t>>> kinds_;  // by family: those that no kernel served
  std::unordered_set<std::string> tried_;                                     // patterns
};

}  // namespace graft::ops
