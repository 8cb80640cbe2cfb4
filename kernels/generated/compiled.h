// Compiled: machine code for one group at given dtypes, sizes and strides, and how to run it. Never changes: threads
// share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/compile/lower/lower.h"
#include "core/ir/graph.h"

namespace graft::ops {

class MachineCode;
class SourceKernel;

/// A result of a kernel: that of ATen's operators, without gaps and overlaps.
struct OutputKind {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;

  explicit OutputKind(const at::Tensor& ofAten);
};

/// The loops of one call and the values of their sizes: edited ones that fit it, else those that lowering makes.
Result<FittedLoops> loopsFor(const Graph& graph, const KernelChoice&, at::TensorList inputs, at::IntArrayRef sizes,
                             at::TensorList outputs, const lower::Machine&);

class Compiled {
 public:
  /// Code for these sizes and strides alone. `graph` has every value's dtype and sizes; `inputs` and `outputs` are what
  /// ATen's operators take and give. `sizes`: the graph's integer inputs. `choice`: what a person has chosen for the
  /// kernel; it counts where it fits this call. An error says why no kernel can be made.
  static Result<std::shared_ptr<const Compiled>> make(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                      at::TensorList outputs, const KernelChoice& choice = {});
  /// `sizes`: of the code's program, which accepts them. `threads`: at most; 0: as the work wants. `work`: how many
  /// times as many elements they are as those that the code was planned for.
  Compiled(std::shared_ptr<const MachineCode>, std::vector<int64_t> sizes, std::vector<OutputKind>, int64_t threads,
           double work = 1);
  Compiled(std::shared_ptr<const SourceKernel>, std::vector<int64_t> sizes, std::vector<OutputKind>);

  /// For inputs of the same dtypes, sizes and strides. Nothing where a check failed, such as an index out of range:
  /// ATen's operators then say what is wrong.
  std::vector<at::Tensor> run(at::TensorList inputs) const;

 private:
  struct Nest {
    int (*run)(void* const* buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end) = nullptr;
    int64_t iterations = 0, grain = 1;
    size_t scratchBytes = 0;
  };
  std::shared_ptr<const MachineCode> code_;
  std::shared_ptr<const SourceKernel> source_;  // runs in place of code_
  std::vector<int64_t> sizes_, temporaryBytes_;
  std::vector<OutputKind> outputs_;
  std::vector<Nest> nests_;
};

}  // namespace graft::ops
