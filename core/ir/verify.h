// verify: the invariants every graph keeps, after import and after each rewrite.
//
//   if (Status s = verify(g); !s) report(s.error());
#pragma once

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// Structure (ids, links, users, names unique), every use after its definition and in scope, arguments complete by
/// schema, literals of the parameter's type, outputs as many as returns. The message names the node. Linear in the
/// graph's size.
Status verify(const Graph&);
/// Of these, that the graph's calling convention fits its inputs and results.
Status verifyCalling(const Graph&);

}  // namespace graft
