// Statistics of a weight's elements, for the inspector and `graft info`.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

struct WeightStatistics {
  double min = 0, max = 0, mean = 0, std = 0;  ///< over the finite elements
  size_t zeros = 0, nonFinite = 0;
  std::vector<double> edges;     ///< of the histogram's bins, one more than counts
  std::vector<uint64_t> counts;  ///< finite elements per bin
  std::vector<double> first;     ///< the first elements in memory order, at most 16
};

/// Computed in fp64. An error where the weight's data is not there (a graph read from text).
Result<WeightStatistics> weightStatistics(const Graph&, ValueId weight, size_t bins = 32);

}  // namespace graft
