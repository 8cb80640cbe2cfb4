// The program of graft::generated: a group's operators as text, with a version in the first line. Files carry it,
// people read it, and what runs is made from it alone. A library reads its own version and all before it.
//
//   generated 1
//   graph exp {
//     input %x : f32[4,8]
//     %y = aten.exp.default(%x) : f32[4,8]
//     return %y
//   }
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

constexpr int kGroupVersion = 1;
/// The operator whose second argument is such a program.
constexpr std::string_view kGeneratedOperator = "graft.generated.default";

/// Without names of modules and lines of source: equal groups have equal text.
std::string groupText(const Graph& group);
/// The name of the group of a text, without reading the rest; "?" where there is none.
std::string_view groupName(std::string_view text);
/// BadInput where the text is no program, is of a later version, or is more than a group may be: control flow, weights,
/// operators that write, draw random numbers or have effects, a million characters.
Result<Graph> parseGroup(std::string_view text, const OperatorSet&);

}  // namespace graft
