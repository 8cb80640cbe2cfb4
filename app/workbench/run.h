// Run: a model's outputs, saved and compared with expected ones where asked for.
//
//   Result<RunReport> r = workbench::run(model, inputs, {.options = {"cuda"}, .output = "out.pt"}, job);
//   r->outputs.describe(), r->captured
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workbench/open.h"

namespace graft::workbench {

struct RunRequest {
  RunOptions options;
  std::string output;    ///< where to save the outputs, as torch.save does; "": nowhere
  std::string expected;  ///< saved outputs to compare with; "": none
};
struct RunReport {
  std::string model;
  std::vector<std::string> inputs;  ///< "f32[2,384]" of each
  TensorSet outputs;
  std::optional<bool> captured;     ///< on a GPU: whether it ran as a CUDA graph
  std::string notCaptured;          ///< why not
  std::optional<MovedAlong> moved;  ///< on a GPU
  std::string output;               ///< the file that was written
  std::optional<std::vector<Difference>> differences;
  std::optional<Error> failure;  ///< the outputs are not the expected ones
};
/// On a GPU as the model is served: captured in a CUDA graph and replayed; where that cannot be, operator by operator.
Result<RunReport> run(const Model&, const TensorSet& inputs, const RunRequest&, const Job& = {});

}  // namespace graft::workbench
