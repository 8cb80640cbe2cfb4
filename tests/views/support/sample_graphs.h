// Graphs for tests of views: an encoder as traced from BERT, of any depth, and a long random one for layouts' speed.
#pragma once

#include "core/ir/graph.h"

namespace graft::test {

/// `layers` encoder layers with attention, residuals, LayerNorm and GELU; shapes 1×128×384, 12 heads.
Graph encoder(int layers);
/// An input x that is added to each of `ends` inputs p_0, p_1, …; each sum is an output.
Graph manyEnds(int ends);
/// A model of layers of three operators; each operator's operand is kept for the backward pass, which calls the same
/// modules in the opposite order and gives a gradient for each layer. Operators are relu, relu_1, … and mul, mul_1, ….
Graph trainingStep(int layers);
/// `nodes` operators without modules, each with up to two operands among the 40 before it.
Graph randomGraph(int nodes, unsigned seed = 1);

}  // namespace graft::test
