// MachineCode: a program of loops as code that runs, from the disk or compiled now. Never changes: threads share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/cpu_code.h"
#include "kernels/jit/jit.h"

namespace graft::ops {

class MachineCode {
 public:
  /// An error says why this process can make none at all.
  static Status available();
  /// The program must be verified. The options' level is this machine's, whatever they say. An error says why there can
  /// be no code.
  static Result<std::shared_ptr<const MachineCode>> make(loops::Program, codegen::CpuOptions);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  /// A nest of the program, in the order in which they run.
  struct Nest {
    codegen::NestFunction run = nullptr;
    loops::ExprId iterations, scratchBytes;
    double nanoseconds = 0;         ///< of one iteration with the sizes that the plan was made for, estimated
    int64_t plannedIterations = 0;  ///< with those sizes; 0: they do not vary
  };
  const std::vector<Nest>& nests() const { return nests_; }
  /// The bytes of each temporary.
  const std::vector<loops::ExprId>& temporaryBytes() const { return temporaryBytes_; }
  const loops::Program& program() const { return program_; }

 private:
  MachineCode() = default;

  const GraftJit* jit_ = nullptr;
  GraftJitModule* module_ = nullptr;
  loops::Program program_;
  std::vector<Nest> nests_;
  std::vector<loops::ExprId> temporaryBytes_;
};

}  // namespace graft::ops
