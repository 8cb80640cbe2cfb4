// What an operator does, in a sentence or two: PyTorch's from resources/operators.txt, which is part of the program,
// graft::'s from the operator library itself.
//
//   operatorDoc("aten.softmax.int") == "The exponentials along dim, scaled to add up to one."
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/operator.h"

namespace graft {

/// `name` as in Operator::name, with or without overload. In-place operators are found by the name without their "_".
/// Empty where nothing is known.
std::string operatorDoc(std::string_view name);
/// What makes a rewrite of it sound or not, in words: "writes to self", "the output shares memory with self", "draws
/// random numbers".
std::vector<std::string> operatorEffects(const Operator&);

}  // namespace graft
