// Elements as places of another tensor: what lookups and scatters have in common.
//
// Private to core/compile/lower/operators.
#pragma once

#include <string_view>

#include "core/compile/lower/call.h"

namespace graft::lower {

/// Refuses a tensor whose elements are no places.
void requireIndices(Call&, TensorId indices, std::string_view parameter);
/// The element as an index into `size` places; the run reports one outside. `wraps`: negative ones count from the end.
ExprId placeOf(Lowering&, ExprId element, ExprId size, bool wraps);

}  // namespace graft::lower
