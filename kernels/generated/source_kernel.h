// SourceKernel: a kernel whose C++ a person has edited, compiled on this machine. Only where the user says that the
// file is trusted (core/compile/fusion/kernel_choice.h); elsewhere the generated kernel runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/compile/codegen/cpp_compile.h"
#include "core/compile/loops/program.h"

namespace graft::ops {

class SourceKernel {
 public:
  /// `program`: what the kernel reads and writes. Null where there is no source, it is not trusted, or no compiler
  /// takes it; that is said once.
  static std::unique_ptr<const SourceKernel> make(const std::string& source, const loops::Program& program);
  ~SourceKernel();

  /// Fills `outputs`. False where a check of the kernel failed.
  bool run(at::TensorList inputs, const std::vector<at::Tensor>& outputs, const std::vector<int64_t>& sizes) const;

 private:
  SourceKernel(void* library, codegen::CppFunction function) : library_(library), function_(function) {}
  void* library_;
  codegen::CppFunction function_;
};

}  // namespace graft::ops
