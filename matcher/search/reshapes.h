// Reshapes: view, reshape, flatten and unflatten all give the same elements in the same order another shape. They
// differ in how they say it (the whole shape, dimensions joined, one dimension taken apart) and in whether memory may
// be copied. A pattern that says one of them finds the others, unless the rule is about just that.
//
//   if (findsAllReshapes(rule)) …          // once for each rule
//   isReshape(node.op->name) && alwaysViews(node.op->name)
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"
#include "matcher/rule/pattern.h"
#include "matcher/rule/symbolic.h"

namespace graft {

/// By canonical name with overload.
bool isReshape(std::string_view op);
/// Of a reshape: the result always lies in the operand's memory. The others copy where the layout asks for it.
bool alwaysViews(std::string_view op);
/// Of a reshape: its second argument is the shape of the result.
bool saysWholeShape(std::string_view op);

/// Whether the rule's reshapes stand for any: not where it says `exact = True`, and not where its two sides are the
/// same operators but for the reshapes, because then these are what it is about.
bool findsAllReshapes(const Rule&);

/// The sizes of the tensor by meaning; nothing where its type has no shape.
std::optional<std::vector<Polynomial>> sizesOf(const Graph&, const Argument& tensor);
/// A list of integers and symbolic integers.
Argument listOf(std::span<const Polynomial> sizes);

}  // namespace graft
