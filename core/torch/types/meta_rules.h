// Shapes of operators that have no kernel for meta tensors in C++: normalisations, convolutions, attention, adaptive
// pooling.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "core/ir/operator.h"

namespace graft {

enum class MetaRule { None, Done, Refused };

/// The operator's results from its arguments in schema order. `why` says what was refused.
MetaRule applyMetaRule(const Operator&, const std::vector<c10::IValue>& args, std::vector<c10::IValue>& results,
                       std::string& why);

}  // namespace graft
