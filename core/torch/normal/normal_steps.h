// Steps of normalizeImported that have a file of their own.
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Sizes are asked of the graph's input that has them (linear(x) has x's first dimension), and that of a view is the
/// number it was viewed by: so no size holds on to a value that a rule takes away. What no input has is asked of the
/// value that reorders the dimensions.
void askSizesEarly(Graph&);

/// Whether a node changes its argument's shape: then sizes cannot be asked elsewhere.
bool changesShapesInPlace(const Graph&);

/// With types: a size that one of the inputs has is asked of that input; where `numbersHold` (no size was taken from an
/// example), a size that is a number whatever the inputs are is written as that number.
void settleSizes(Graph&, bool numbersHold);

/// Masks that hide nothing: a sum with what is zero for every input, before a softmax. torch.export writes them where
/// tracing leaves them out.
void removeIdleMasks(Graph&);

/// Puts together what ExportedProgram.run_decompositions takes apart: linear layers, products of batches, norms,
/// attention. In graphs that write in place only the operators' names.
void recompose(Graph&, const OperatorSet&);

/// x[:] is x.
void removeWholeSlices(Graph&);

}  // namespace graft
