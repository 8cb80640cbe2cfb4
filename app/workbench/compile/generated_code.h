// What Graft would compile of a model, stage by stage: groups of operators, their loops, and code.
//
//   auto code = workbench::generatedCode(shown->graph, {.form = CodeForm::Loops}, job);
//   code->kernels[0].text, code->decisions, code->notFused
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/compile/call_origin.h"
#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/compile/fusion/fusion.h"
#include "core/ir/graph.h"
#include "core/ir/operator.h"

namespace graft::workbench {

enum class CodeForm : uint8_t { Groups, Loops, Cpp, Cuda, Ptx, Sass };
/// "groups", "loops", "cpp", "cuda", "ptx", "sass".
std::string_view formName(CodeForm);
std::optional<CodeForm> findForm(std::string_view name);

struct CodeRequest {
  CodeForm form = CodeForm::Groups;
  std::string kernel;  ///< the only one to print: its name, or its number from 0; "": all
  FusionOptions fusion = {};
  /// Plan as for a model on a GPU; none: where the model lies on one, or the form is a GPU's.
  std::optional<bool> isForGpu = {};
  int capability = 0;     ///< of the GPU that code is compiled for: 90 for 9.0; 0: this machine's, else 90
  bool hasUsage = false;  ///< for a GPU: compile each kernel, and tell what it takes of a multiprocessor
};

/// Microseconds in a run of the model.
struct KernelTimes {
  double operators = 0;             ///< of the operators one by one; 0 where the model calls the kernel already
  double kernel = 0;                ///< of the kernel as it is chosen
  std::optional<double> generated;  ///< where something is chosen: of the kernel without that
  /// As fast as this machine's memory and arithmetic let it be (roofline.h)
  std::optional<double> least = {};
};

/// Loops that were timed in place of those that the planner chose.
struct TriedSchedule {
  codegen::LoopSchedule schedule;
  double microseconds = 0;  ///< in a run of the model
};

/// Characters [begin, end) of a kernel's text, which compute a node or a part of it.
struct NodeSpan {
  std::string node;
  size_t begin = 0, end = 0;
};

/// One launch of a kernel on a GPU.
struct KernelLaunch {
  std::string function, schedule;  ///< schedule: how it runs, for people
  int64_t blocks = 0;
  int threads = 0;          ///< of a block
  int64_t sharedBytes = 0;  ///< of a block
  /// Of a multiprocessor, as the assembler says.
  struct Usage {
    int registers = 0;       ///< of a thread
    int64_t stackBytes = 0;  ///< of a thread
    int64_t spillBytes = 0;  ///< stored and loaded because registers were too few
    double occupancy = 0;    ///< share of the warps that a multiprocessor holds; 0: not known
    int blocks = 0;          ///< on a multiprocessor at a time
    std::string limit = {};  ///< what more of would raise that: "registers"
  };
  std::optional<Usage> usage = {};
};

struct GeneratedKernel {
  std::string name;  ///< of its operators; unique
  std::vector<std::string> nodes, modules, inputs, outputs;
  std::vector<std::string> computing;  ///< those of its nodes that are no views: what a plan names it by
  std::string product;                 ///< the matrix product that it begins with; "": none
  bool isInFile = false;               ///< the model calls it already: graft::generated
  bool isAnyLayout = false;            ///< and its program lets images lie with channels last
  std::string call;                    ///< then the node that does
  size_t bytes = 0;                    ///< that it reads and writes; once it is measured, with the sizes of the run
  size_t bytesWritten = 0;             ///< of these
  size_t bytesApart = 0;               ///< that its operators read and write one by one
  double savedMicroseconds = 0;        ///< predicted
  double microseconds = 0;             ///< that it takes, predicted
  KernelChoice choice;                 ///< what a person has chosen for it
  std::optional<double> operations;    ///< floating-point ones of one call; known once it is measured
  std::optional<KernelTimes> measured;
  std::vector<TriedSchedule> tried;    ///< other ways to run its loops, the fastest first; of what was asked to try
  std::vector<KernelLaunch> launches;  ///< for a GPU: what runs one after another
  std::string text;                    ///< in the form asked for
  std::vector<NodeSpan> spans;  ///< of a text that nobody has edited, but groups: in order, apart from each other
  std::string problem;          ///< why it has no text in that form; then it runs as ATen operators
};

/// An operator that runs by itself, in no generated kernel.
struct SingleCall {
  std::string node, op, module;
  CallOrigin origin = CallOrigin::Aten;
  size_t bytesRead = 0, bytesWritten = 0;   ///< each tensor once, as far as shapes are known
  std::optional<double> operations = {};    ///< as of a kernel
  std::optional<double> microseconds = {};  ///< measured
  std::optional<double> least = {};         ///< as of a kernel
};

/// Of a run of the model, in microseconds, all nodes together.
struct ModelTimes {
  double operators = 0;  ///< as the model is
  double kernels = 0;    ///< with the kernels in place
  double bandwidth = 0;  ///< bytes read and written a microsecond, as far as copying reaches
  /// Floating-point operations a microsecond, as far as a large matrix product of a type reaches
  std::map<DType, double> speeds = {};
};

struct CodeReport {
  CodeForm form = CodeForm::Groups;
  bool isForGpu = false;  ///< planned by a GPU's prices
  int capability = 0;     ///< that code is for, where it is for a GPU
  std::vector<GeneratedKernel> kernels;
  std::vector<SingleCall> calls;  ///< all else that computes, in order
  std::optional<ModelTimes> measured;
  std::vector<FusionDecision> decisions;   ///< of a model that is not fused yet
  std::vector<NotFused> notFused;          ///< likewise
  std::vector<SteeringProblem> unapplied;  ///< what the steering wants and cannot have
  Steering steering;                       ///< that gives these groups again, and no others
};

/// BadInput where no kernel has the name.
Result<CodeReport> generatedCode(const Graph&, const CodeRequest&, const OperatorSet&, const Job& = {});

}  // namespace graft::workbench
