// Shapes of operators that have no kernel for meta tensors in C++: normalisations, convolutions, attention, adaptive
// pooling.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace graft {

enum class MetaRule { None, Done, Refused };

/// Results for the operator of that base name from its arguments in schema order. `why` says what was refused.
MetaRule applyMetaRule(std::string_view op, const std::vector<c10::IValue>& args, std::vector<c10::IValue>& results,
                       std::string& why);

}  // namespace graft
