// Train bench: steps of training a model file in PyTorch's ways and in Graft's, in turns.
//
//   auto r = workbench::trainBench({.model = "net.pt2", .training = {.modes = {"eager", "graft"}}}, semantics, job);
//   r->comparison.modes[0].step.ratio                  // above 1: Graft's step is faster
#pragma once

#include <string>
#include <vector>

#include "app/workbench/baselines/baselines.h"
#include "app/workbench/open.h"

namespace graft::workbench {

struct TrainBenchRequest {
  std::string model;
  InputRequest inputs;
  double seconds = 3;
  TrainingRequest training;  ///< its `model` is the one above
};
struct TrainBenchReport {
  std::string model;
  std::vector<std::string> randomInputs;  ///< Inputs::random
  std::vector<std::string> inputs;        ///< "f32[2,384]" of each
  TrainingComparison comparison;
};
Result<TrainBenchReport> trainBench(const TrainBenchRequest&, const Semantics&, const Job& = {});

}  // namespace graft::workbench
