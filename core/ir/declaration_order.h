// The order in which a graph declares its module calls and weights: that of their first use, so that it does not depend
// on the order in which a file happens to list them. Importers bring every graph into it.
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Module calls in the order of their first nodes, callers before what they call; a call that owns no node (a dropout
/// that is switched off) keeps its place before the call that followed it. Weights in the order in which nodes use
/// them, unused ones last. Ids of module calls change, those of values do not. Doing it twice changes nothing more.
void orderDeclarations(Graph&);

}  // namespace graft
