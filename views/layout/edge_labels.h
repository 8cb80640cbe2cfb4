// Labels of edges where they can be read: none stands on a box or on another label.
//
//   clearLabels(graph, layout);   // each stays, goes to the other side of its edge, or goes away
#pragma once

#include "views/layout/layout.h"

namespace graft {

/// What a label takes, from the left end of its baseline.
Rect labelRect(const EdgeLabel& label);
/// "s0×64×…×… f32" of "s0×64×(s2 + 1)//2×(s3 + 1)//2 f32": sizes that are calculated are left out.
std::string shortLabel(const std::string& text);
/// They stay in the module that their edge leaves from, in short where they need to. Of those that have no room on
/// either side nothing is kept: the card of the box says it, too.
void clearLabels(const VisibleGraph& graph, Layout& layout);

}  // namespace graft
