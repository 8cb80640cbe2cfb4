// KernelChoice: what a person has chosen for one kernel: how its loops run, or the kernel itself, edited by hand. The
// program of graft::generated carries it (group_text.h).
//
//   if (Status s = checkChoice(groupGraph(g, group), choice); !s) say(s.error());
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/loop_schedule.h"
#include "core/compile/loops/program.h"
#include "core/ir/graph.h"

namespace graft {

struct KernelChoice {
  codegen::LoopSchedule schedule = {};
  std::string loops = {};  ///< in place of those that lowering makes; as text (core/compile/loops/text.h); "": none
  std::string source =
      {};  ///< C++ in place of generated code, as makeCppCode writes it; compiled only if trusted; "": none

  bool isEdited() const { return !loops.empty() || !source.empty(); }
  bool isEmpty() const { return *this == KernelChoice(); }
  bool operator==(const KernelChoice&) const = default;
};

/// Whether the user says that C++ of files may be compiled and run: GRAFT_TRUST_SOURCES=1. The command line's
/// --trust-sources sets it.
bool areSourcesTrusted();
constexpr const char* kTrustVariable = "GRAFT_TRUST_SOURCES";

/// Whether a call fails where a hand-edited kernel cannot be made: GRAFT_EDITED_KERNELS=required. Otherwise the
/// operators run in its place. Who puts an edited kernel into a model requires it from then on, for the whole process:
/// verification of a kernel that does not run would compare the operators with themselves.
bool areEditedKernelsRequired();
void requireEditedKernels();
constexpr const char* kEditedVariable = "GRAFT_EDITED_KERNELS";

/// Whether the group takes tensors alone, of sizes that the graph says as numbers.
bool hasFixedSizes(const Graph& group);

/// Loops that read and write what `lowered` does. Errors: those of parseProgram; BadInput where buffers differ.
Result<loops::Program> editedLoops(std::string_view text, const loops::Program& lowered);

/// What one call of a kernel reads and writes.
struct KernelCall {
  struct Tensor {
    DType dtype;
    std::vector<int64_t> sizes;
  };
  std::vector<Tensor> inputs, outputs;
  std::vector<std::pair<std::string, int64_t>> numbers;  ///< the group's integer inputs, by name
};
struct FittedLoops {
  loops::Program program;
  std::vector<int64_t> sizes;  ///< of the program's sizes, in this call
};
/// Edited loops for one call. Errors: those of parseProgram; BadInput where they are for others.
Result<FittedLoops> fittedLoops(std::string_view text, const KernelCall&);

/// BadInput where the group's kernel cannot be made so: its loops leave no such schedule, the edited ones do not fit, a
/// source is not trusted or no compiler takes it.
Status checkChoice(const Graph& group, const KernelChoice&);

}  // namespace graft
