#include "app/workbench/training/train_bench.h"

#include <filesystem>

#include "matcher/lang/rule_file.h"

namespace graft::workbench {

Result<TrainBenchReport> trainBench(const TrainBenchRequest& request, const Semantics& semantics, const Job& job) {
  TrainBenchReport report;
  report.model = request.model;
  TrainingRequest training = request.training;
  training.model = request.model;
  training.package = (std::filesystem::path(shippedRulesFolder()).parent_path() / "python").string();
  const RunOptions options{request.inputs.device, request.inputs.dtype};
  std::optional<Result<TensorSet>> inputs;
  {  // The graph is gone before the steps are timed: it leaves the memory to those.
    auto model = open({request.model}, semantics, job);
    if (!model) return model.error();
    InputRequest inFile = request.inputs;
    inFile.dtype.reset();
    auto declared = inputsFor(model->graph, inFile);
    if (!declared) return declared.error();
    report.randomInputs = std::move(declared->random);
    inputs = graft::convert(declared->tensors, options.device, options.dtype);
  }
  if (!*inputs) return inputs->error();
  report.inputs = (*inputs)->describe();
  auto comparison = timeTraining(**inputs, options, training, request.seconds, job);
  if (!comparison) return comparison.error();
  report.comparison = std::move(*comparison);
  return report;
}

}  // namespace graft::workbench
