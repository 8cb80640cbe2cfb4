// CudaCompiled: generated kernels on a GPU for one group at given dtypes, sizes and strides, and how to run them. Never
// changes: threads share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/compile/nvrtc/nvrtc.h"
#include "core/ir/graph.h"
#include "kernels/generated/cuda/cuda_run.h"

namespace graft::ops {

/// Machine code of a source: from the disk, or compiled now.
Result<std::string> cudaBinary(const Nvrtc&, const std::string& source, int capability);

class CudaCompiled final : public CudaRun {
 public:
  /// `graph` has every value's dtype and sizes; `inputs` lie on one GPU, `outputs` are what ATen's operators give for
  /// them. `sizes`: the graph's integer inputs. An error says why no kernel can be made.
  /// `choice`: what a person has chosen; edited loops count where they fit this call.
  static Result<std::shared_ptr<const CudaCompiled>> make(const Graph& graph, at::TensorList inputs,
                                                          at::IntArrayRef sizes, at::TensorList outputs,
                                                          const KernelChoice& choice = {});

  std::vector<at::Tensor> run(at::TensorList inputs) const override;
  /// Of code in parts, of which each has its inputs, then its outputs: on the current stream, one launch for as many
  /// parts as a table holds. Lengths are multiples of vector(), and at most 2^30. Throws c10::Error where a launch
  /// fails.
  void run(std::span<const codegen::CudaPart>) const;
  /// Of code in parts: what a part's length is a multiple of.
  int64_t vector() const;
  ~CudaCompiled() override;

  /// The power of two, at most 16, that divides a tensor's address: part of what a kernel is made for.
  static int64_t alignmentOf(const at::Tensor&);
  /// Whether a CUDA graph is being captured on the current stream of the tensor's GPU: nothing can be compiled then.
  static bool isCapturing(const at::Tensor&);
  /// What threads keep in memory of their own, for want of registers: of all kernels.
  int64_t spilledBytes() const;

 private:
  friend class CudaLoops;
  struct Code;
  explicit CudaCompiled(std::unique_ptr<Code>);
  std::unique_ptr<Code> code_;
};

/// The loops of a group for one kind of call, of which code is made: one, or several to choose from.
class CudaLoops {
 public:
  /// As CudaCompiled::make.
  static Result<CudaLoops> make(const Graph&, at::TensorList inputs, at::IntArrayRef sizes, at::TensorList outputs,
                                const KernelChoice& = {});
  ~CudaLoops();
  CudaLoops(CudaLoops&&) noexcept;
  CudaLoops& operator=(CudaLoops&&) noexcept;

  /// Whether the loops are a matrix product and what is behind it.
  bool isProduct() const;
  /// `inRegisters`: elements of a row that a thread keeps there; 0: as many as suit most kernels.
  Result<codegen::CudaCode> code(std::optional<codegen::ProductTile> = {}, int inRegisters = 0) const;
  /// In parts, with a table for as many of them as a kernel takes; for addresses that are multiples of 16, or for any.
  Result<codegen::CudaCode> codeInParts(bool isAligned) const;
  /// The tiles for the product that the code computes, the best first.
  std::vector<codegen::ProductTile> tiles(const codegen::CudaCode&) const;
  /// What code and times depend on besides the source.
  std::string machine() const;
  Result<std::shared_ptr<const CudaCompiled>> compile(const codegen::CudaCode&) const;
  /// One for each tile, compiled side by side; null where none can be made.
  std::vector<std::shared_ptr<const CudaCompiled>> compileTiles(const std::vector<codegen::ProductTile>&) const;

 private:
  struct State;
  explicit CudaLoops(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace graft::ops
