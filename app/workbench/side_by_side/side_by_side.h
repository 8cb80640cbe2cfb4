// SideBySide: several models, or several steps of one, on the same inputs: how many nodes and kernels each has, how
// long it takes and how far its results are from those of the first. All are timed in turn, so that drift hits each
// alike.
//
//   auto table = sideBySide({{"net.pt", &net}, {"after Attention", &step}, {"fast.pt", &fast}}, inputs, {}, job);
//   table->rows[1].timing.medianMs, table->rows[1].worst().maxAbs
#pragma once

#include <string>
#include <vector>

#include "app/workbench/compare.h"

namespace graft::workbench {

struct Contestant {
  std::string name;
  const Graph* graph = nullptr;
};
struct SideBySideRow {
  std::string name;
  size_t nodes = 0;
  size_t kernels = 0;    ///< nodes that compute something when the model runs: views and control flow are none
  std::string obstacle;  ///< why it was not run or compared; nothing below is set then
  Timing timing;
  double ratio = 1;                 ///< the median of the first one's time to its own: above 1, it is faster
  std::vector<Difference> outputs;  ///< to the first; of the first none
  bool passed = true;               ///< all outputs are as the first's
  /// The largest absolute difference of all outputs.
  double maxAbs() const;
};
struct SideBySide {
  std::vector<SideBySideRow> rows;
  std::string protocol;          ///< device and how they were timed, in words
  std::optional<Error> failure;  ///< which differ or did not run
};
/// At least two. An error where the first one does not run; that another does not is told in its row. `seconds` of the
/// request are for all together.
Result<SideBySide> sideBySide(const std::vector<Contestant>&, const TensorSet& inputs, const CompareRequest&,
                              const Job& = {});

/// How many nodes compute something when the graph runs once, those in branches and loops counted once.
size_t kernelCount(const Graph&);

}  // namespace graft::workbench
