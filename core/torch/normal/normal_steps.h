// Steps of normalizeImported that have a file of their own.
#pragma once

#include "core/ir/graph.h"
#include "core/torch/normal/imported_graph.h"

namespace graft {

/// Asks the graph's inputs for sizes where they have them: linear(x) has x's first dimension. A view's size becomes the
/// number that the view was made with. So no size uses a value that a rule takes away. Where no input has a size, asks
/// the value that reorders the dimensions.
void askSizesEarly(Graph&);

/// Whether some node changes its argument's shape in place. Then another value's size says nothing.
bool changesShapesInPlace(const Graph&);

/// Once types are known: asks the input that has a size for it. Where `numbersHold` (no size came from an example), a
/// size that is the same number for all inputs becomes that number.
void settleSizes(Graph&, bool numbersHold);

/// The number in place of the value, wherever it is an argument; a result of the graph stays a value.
void becomeNumber(Graph&, ValueId, const Argument& number);

/// Computes what the model computes of numbers alone, by tensors without dimensions, and reads as a number.
void settleNumbers(Graph&);

/// Removes masks that hide nothing: before a softmax, the addition of a tensor that is zero for every input.
/// torch.export writes them, tracing leaves them out.
void removeIdleMasks(Graph&);

/// Puts together what ExportedProgram.run_decompositions takes apart: linear layers, products of batches, norms,
/// attention. In graphs that write in place it changes the operators' names only.
void recompose(Graph&, const OperatorSet&);

/// One operator for each operation: 1 - x for rsub, conv2d for the general convolution, transpose for x.T of a matrix.
void rewriteSpellings(Graph&, const OperatorSet&);

/// Takes the branches of scripted code that ranks and dtypes decide, and writes out its short loops.
SettledBranches settleBranches(Graph&);

/// Removes x[:], which is x.
void removeWholeSlices(Graph&);

}  // namespace graft
