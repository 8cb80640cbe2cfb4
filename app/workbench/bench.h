// Bench: how fast a rewritten model is against what people run today. On the CPU that is the file that `apply` would
// write beside frozen TorchScript; on a GPU both graphs, captured; and, where asked for, PyTorch's own modes.
//
//   Result<BenchReport> r = workbench::bench({.model = {"bert.pt"}, .seconds = 3}, rules, semantics, job);
//   r->timing.times.ratio                                  // above 1: the rewritten model is faster
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/baselines/baselines.h"
#include "app/workbench/baselines/file_timing.h"
#include "app/workbench/open.h"
#include "app/workbench/rules.h"
#include "core/torch/bench.h"

namespace graft::workbench {

struct BenchRequest {
  std::string model;
  std::string method = "forward";
  InputRequest inputs;
  double seconds = 3;
  std::vector<std::string> baselines;  ///< of baselineModes()
  std::string python;                  ///< that runs them: what findPython found
};
struct BenchReport {
  std::string model;
  std::vector<std::string> randomInputs;  ///< Inputs::random
  std::vector<std::string> inputs;        ///< "f32[2,384]" of each
  size_t rewrites = 0, nodesBefore = 0, nodesAfter = 0;
  std::optional<MovedAlong> moved;  ///< on a GPU: of the original
  std::vector<Difference> outputs;  ///< of the rewritten model to the original, on the inputs
  AgainstOriginal timing;
  std::optional<BaselineComparison> baselines;
  std::string changedOnPurpose;  ///< numbers differ, and these steps change them on purpose
  std::optional<Error> failure;  ///< numbers differ, and no step means them to
};
enum class BenchStage { Inputs, Compared, Timed, BaselinesTimed };
using OnBenchStage = std::function<void(BenchStage, const BenchReport&)>;
/// Rewrites are not verified one by one here. A wrong model may well be a fast one: what it computes is compared.
Result<BenchReport> bench(const BenchRequest&, const ChosenRecipe&, const Semantics&, const OnBenchStage& = {},
                          const Job& = {});

}  // namespace graft::workbench
