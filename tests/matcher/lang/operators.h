// The operators that the rule language's tests bind to: PyTorch's own schemas, and those of graft's kernels as text, so
// that the tests need no operator library.
#pragma once

#include "core/ir/operator.h"

namespace graft::test {

const OperatorSet& operators();

}  // namespace graft::test
