// What PyTorch's own modes took beside the rewritten model, as a table.
//
//   console.print(baselinesTable(*report.baselines));
#pragma once

#include <string>

#include "app/workbench/baselines/baselines.h"

namespace graft::cli {

/// A row for each mode; on a GPU with the host's time beside the GPU's.
std::string baselinesTable(const workbench::BaselineComparison&);
/// A row for each way to train.
std::string trainingTable(const workbench::TrainingComparison&);

}  // namespace graft::cli
