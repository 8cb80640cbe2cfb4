// A kernel's loops as a GPU runs them: CUDA C++, PTX or SASS, each with the nodes that its parts compute, and what the
// kernel takes of a multiprocessor. Needs no GPU: NVRTC compiles for the one that is named.
//
//   auto code = gpuCode(program, {.form = CodeForm::Sass, .capability = 90, .hasUsage = true});
//   code->text, code->spans, code->launches[0].registers
#pragma once

#include <vector>

#include "app/workbench/compile/generated_code.h"
#include "core/compile/loops/marks.h"
#include "core/compile/loops/program.h"

namespace graft::workbench {

struct GpuCodeRequest {
  CodeForm form = CodeForm::Cuda;  ///< Cuda, Ptx or Sass
  int capability = 90;
  bool hasUsage = false;  ///< compile it, and tell what it takes
};
struct GpuCode {
  std::string text;
  std::vector<loops::OriginSpan> spans;  ///< in order, apart from each other
  std::vector<KernelLaunch> launches;
};
/// An error says why there is no such code, or what to install for it.
Result<GpuCode> gpuCode(loops::Program, const GpuCodeRequest&, const Job& = {});

}  // namespace graft::workbench
