// Steps of normalizeImported that have a file of their own.
#pragma once

#include "core/ir/graph.h"

namespace graft {

/// Sizes are asked of the graph's input that has them (linear(x) has x's first dimension), and that of a view is the
/// number it was viewed by: so no size holds on to a value that a rule takes away. What no input has is asked of the
/// value that reorders the dimensions.
void askSizesEarly(Graph&);

/// Masks that hide nothing: a sum with what is zero for every input, before a softmax. torch.export writes them where
/// tracing leaves them out.
void removeIdleMasks(Graph&);

/// x[:] is x.
void removeWholeSlices(Graph&);

}  // namespace graft
