// The table of operator_facts.h, in three parts.
//
// Names are those of the normal form. A line without an overload speaks of all overloads that take tensors, unless the
// overload has a line of its own, which then says all that is known of it.
//
// Private to core/ir/operators.
#pragma once

#include <span>

#include "core/ir/operators/operator_facts.h"

namespace graft {

namespace fact_lines {

using Family = OperatorFamily;
using Shape = ShapeRule;
using DType = DTypeRule;
using enum OperatorFact;

constexpr OperatorFact unary = Pointwise | KeepsLayout;

}  // namespace fact_lines

std::span<const OperatorFacts> elementFacts();  ///< one function of elements at the same place
std::span<const OperatorFacts> tensorFacts();   ///< softmax, reductions, products, views, copies, casts and so on
std::span<const OperatorFacts> otherFacts();    ///< factories, random numbers, in place only, properties, control flow

}  // namespace graft
