// The operators that the executor runs itself: lists, tuples and dictionaries, branches and loops. Private to
// core/torch.
#pragma once

#include <string_view>
#include <vector>

#include "core/torch/run/plan.h"

namespace graft {

/// The operator's name as isBuiltIn knows it: "prim.If" of "prim.If.default".
std::string_view builtInName(std::string_view op);
bool isBuiltIn(std::string_view builtInName);

/// Sets the instruction's kind and makes the arguments those that it takes. BadInput where the node has others.
Status planBuiltIn(const Node&, std::string_view builtInName, Instruction&, std::vector<Argument>& args);

}  // namespace graft
