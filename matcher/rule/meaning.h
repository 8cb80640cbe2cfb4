// What a value of a graph says that is known without running it: the dtype, the device, the sizes and the numbers that
// scripted and traced code calculates from them.
//
//   meaningOf(graph, pow)     // x.shape[-1] ** -0.5, where the size is known: 0.5
#pragma once

#include <optional>

#include "core/ir/graph.h"

namespace graft {

/// A literal, or a list of literals and symbolic sizes. Nothing for what depends on a tensor's elements, and for what
/// needs a size that is not known.
std::optional<Argument> meaningOf(const Graph&, const Argument&);

/// What the operator does where its argument of that name is None: a factory's dtype is float32, or follows its
/// numbers. Nothing where None says nothing else.
std::optional<Argument> meaningOfNone(const Graph&, const Node&, std::string_view parameter);

}  // namespace graft
