// Proof by numbers: that a rewritten graph computes what the original does, on the given inputs and on further ones made from
// them (random of the same ranges, scaled, edge values), judged against the original run in fp64.
#pragma once

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

struct Proof {
  bool passed = false;
  size_t inputSets = 0;             ///< how many sets of inputs were tried, the given one first
  std::vector<Difference> outputs;  ///< on the given inputs; where a later set failed, on that set
  std::string why;                  ///< the first failure: which inputs, which output, how far off
};

/// Errors are for what cannot be run at all; numbers that differ are a Proof that has not passed.
Result<Proof> proveRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs, const Job& = {});

}  // namespace graft
