// The operators that the rule language's tests bind to: PyTorch's own schemas, and those that graft's kernels describe
// themselves by, so that the tests need no operator library.
#pragma once

#include "core/ir/operator.h"

namespace graft::test {

const OperatorSet& operators();

}  // namespace graft::test
