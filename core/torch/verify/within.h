// Comparing by a tolerance that a rule declares, whatever the dtypes are, and with several runs of the original.
//
// Private to core/torch.
#pragma once

#include <vector>

#include "core/ir/rewrite_check.h"
#include "core/torch/tensors.h"

namespace graft {

struct WithinTolerance {
  std::vector<Difference> differences;  ///< passed: by the tolerance
  double relativeRmse = 0;              ///< the largest of them
};
/// Shapes must agree, and the places of NaN and infinities.
WithinTolerance compareWithin(const TensorSet& expected, const TensorSet& actual, const RewriteTolerance&);

/// Whether each element of `actual` is what one of several runs of the original may give there: within the usual
/// tolerance of what they give, and at most as far out as they lie apart. NaN or an infinity where one of them has it;
/// any number where they are not agreed that there is one. All sets have the same tensors; false where they do not.
bool isAmong(const std::vector<TensorSet>& runs, const TensorSet& actual);

}  // namespace graft
