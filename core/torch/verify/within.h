// Comparing by a tolerance that a rule declares, whatever the dtypes are.
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

}  // namespace graft
