// What Graft would compile of a model, stage by stage: groups of operators, their loops, and code.
//
//   auto code = workbench::generatedCode(shown->graph, {.form = CodeForm::Loops}, job);
//   code->kernels[0].text, code->decisions, code->notFused
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/compile/fusion/fusion.h"
#include "core/ir/graph.h"
#include "core/ir/operator.h"

namespace graft::workbench {

enum class CodeForm : uint8_t { Groups, Loops, Cpp, Cuda, Ptx };
/// "groups", "loops", "cpp", "cuda", "ptx".
std::string_view formName(CodeForm);
std::optional<CodeForm> findForm(std::string_view name);

struct CodeRequest {
  CodeForm form = CodeForm::Groups;
  std::string kernel;  ///< the only one to print: its name, or its number from 0; "": all
  FusionOptions fusion = {};
  bool isForGpu = false;  ///< as for a model on a GPU; CUDA C++ and PTX always are
};

/// Microseconds in a run of the model.
struct KernelTimes {
  double operators = 0;             ///< of the operators one by one
  double kernel = 0;                ///< of the kernel as it is chosen
  std::optional<double> generated;  ///< where something is chosen: of the kernel without that
};

struct GeneratedKernel {
  std::string name;  ///< of its operators; unique
  std::vector<std::string> nodes, modules, inputs, outputs;
  std::vector<std::string> computing;  ///< those of its nodes that are no views: what a plan names it by
  std::string product;                 ///< the matrix product that it begins with; "": none
  bool isInFile = false;               ///< the model calls it already: graft::generated
  size_t bytes = 0;                    ///< that it reads and writes
  size_t bytesApart = 0;               ///< that its operators read and write one by one
  double savedMicroseconds = 0;        ///< predicted
  KernelChoice choice;                 ///< what a person has chosen for it
  std::optional<KernelTimes> measured;
  std::string text;     ///< in the form asked for
  std::string problem;  ///< why it has no text in that form; then it runs as ATen operators
};

struct CodeReport {
  CodeForm form = CodeForm::Groups;
  std::vector<GeneratedKernel> kernels;
  std::vector<FusionDecision> decisions;   ///< of a model that is not fused yet
  std::vector<NotFused> notFused;          ///< likewise
  std::vector<SteeringProblem> unapplied;  ///< what the steering wants and cannot have
  Steering steering;                       ///< that gives these groups again, and no others
};

/// BadInput where no kernel has the name.
Result<CodeReport> generatedCode(const Graph&, const CodeRequest&, const OperatorSet&, const Job& = {});

}  // namespace graft::workbench
