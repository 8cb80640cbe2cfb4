// The program of graft::generated: a group's operators as text, with a version in the first line. Files carry it,
// people read it, and what runs is made from it alone. A library reads its own version and all before it.
//
//   generated 1
//   graph exp {
//     input %x : f32[4,8]
//     %y = aten.exp.default(%x) : f32[4,8]
//     return %y
//   }
//
// Where a person has chosen something for the kernel (kernel_choice.h), the version is 2, and sections follow, in this
// order, each only where it says something:
//
//   --- schedule
//   lanes i1
//   --- loops
//   loops 1
//   …
//   --- source: C++, compiled only where the file is trusted
//   int run(const float* x, float* y) { … }
//
// Version 3 says that results which are images may lie with channels last, as the images that the group is given, where
// its operators would turn them: nothing in the model takes a view that needs another layout. Sections may follow it,
// too.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/ir/graph.h"

namespace graft {

constexpr int kGroupVersion = 3;
/// The operator whose second argument is such a program.
constexpr std::string_view kGeneratedOperator = "graft.generated.default";

/// Without names of modules and lines of source: equal groups have equal text.
std::string groupText(const Graph& group, const KernelChoice& = {}, bool isAnyLayout = false);
/// Whether the text says that images may lie as they like.
bool allowsAnyLayout(std::string_view text);
/// Whether this may be an image, or a batch of them: by its dimensions.
bool mayBeImage(const Type&);
/// The text with its name and those of its values replaced by numbers: equal for groups that differ in names alone.
std::string withoutNames(std::string_view text);
/// The name of the group of a text, without reading the rest; "?" where there is none.
std::string_view groupName(std::string_view text);
/// BadInput where the text is no program, is of a later version, or is more than a group may be: control flow, weights,
/// operators that write, draw random numbers or have effects, a million characters.
Result<Graph> parseGroup(std::string_view text, const OperatorSet&);
/// What the text says beside the operators. BadInput where a section is none, or its schedule or loops cannot be read.
Result<KernelChoice> parseChoice(std::string_view text);

}  // namespace graft
