// Graphs for tests of views: an encoder as traced from BERT, of any depth, and a long random one for layouts' speed.
#pragma once

#include "core/ir/graph.h"

namespace graft::test {

/// `layers` encoder layers with attention, residuals, LayerNorm and GELU; shapes 1×128×384, 12 heads.
Graph encoder(int layers);
/// An input x that is added to each of `ends` inputs p_0, p_1, …; each sum is an output.
Graph manyEnds(int ends);
/// `nodes` operators without modules, each with up to two operands among the 40 before it.
Graph randomGraph(int nodes, unsigned seed = 1);

}  // namespace graft::test
