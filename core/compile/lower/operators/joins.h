// Tensors side by side, for operators that begin with that.
//
// Private to core/compile/lower/operators.
#pragma once

#include <span>

#include "core/compile/lower/call.h"

namespace graft::lower {

/// The tensors along `dim`, one behind the other, in the dtype. Refuses sizes beside it that are spelled in several
/// ways.
TensorId sideBySide(Call&, std::span<const TensorId>, size_t dim, DType);

}  // namespace graft::lower
