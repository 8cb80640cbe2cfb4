// What expressions may ask of values and modules (x.shape, m.in_features), and the functions they may call (len, sqrt,
// users).
#pragma once

#include <string>

#include "matcher/rule/expression.h"

namespace graft {

Result<Argument> evaluateAttribute(const Expression&, const Environment&);
Result<Argument> evaluateCall(const Expression&, const Environment&);

/// The size of that dimension as the environment wants it; nothing where there is no such dimension.
std::optional<Argument> sizeIn(const Environment&, ValueId, int64_t dim);
/// An error at the expression's place in the rule file.
Error expressionError(const Expression&, std::string message);
/// Python's truth of a literal; an error for tensors and unknown sizes.
Result<bool> truth(const Expression&, const Argument&);
/// The literal as Python text, "a value of the graph" for values.
std::string argumentText(const Argument&);

}  // namespace graft
