#include "app/workbench/run.h"

#include <fmt/format.h>

#include "app/workbench/compare.h"
#include "core/torch/cuda_runner.h"

namespace graft::workbench {
namespace {

Result<TensorSet> outputsOf(RunReport& report, const Program& program, const TensorSet& inputs, const Job& job) {
  if (program.options().device == "cpu") return program.run(inputs, job);
  auto runner = CudaRunner::make(program);
  auto out = runner ? runner->run(inputs, job) : runner.error();
  report.captured = bool(out);
  if (out || out.error().kind == ErrorKind::Cancelled) return out;
  report.notCaptured = out.error().message;
  return program.run(inputs, job);
}

}  // namespace

Result<RunReport> run(const Model& model, const TensorSet& inputs, const RunRequest& request, const Job& job) {
  auto program = Program::build(model.graph, request.options);
  if (!program) return program.error();
  RunReport report;
  report.model = model.path;
  report.inputs = inputs.describe();
  if (request.options.device != "cpu") report.moved = program->moved();
  auto outputs = outputsOf(report, *program, inputs, job);
  if (!outputs) return outputs.error();
  report.outputs = std::move(*outputs);
  if (!request.output.empty()) {
    if (Status s = saveTensors(report.outputs, request.output); !s) return s.error();
    report.output = request.output;
  }
  if (request.expected.empty()) return report;
  auto expected = loadTensors(request.expected);
  if (!expected) return expected.error();
  report.differences = compareTensors(*expected, report.outputs);
  if (!allPassed(*report.differences))
    report.failure =
        Error{ErrorKind::Verification,
              fmt::format("the outputs differ from {}: {}", request.expected, firstFailure(*report.differences)),
              {}};
  return report;
}

}  // namespace graft::workbench
