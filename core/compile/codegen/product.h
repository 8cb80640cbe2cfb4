// Matrix products among loops: a nest whose iterations sum the products of two buffers' halves, with anything behind
// the sum. Generators of code multiply tiles there, and compute what is behind as the tile's epilogue.
//
//   nest i < 512, j < 768
//     local s: f32[]
//     s[] = sum(k < 3072: f32(x[i, k]) * f32(w[j, k]))
//     y[i, j] = f16(maximum(s[] + f32(b[j]), 0.0))
#pragma once

#include <optional>

#include "core/compile/loops/program.h"

namespace graft::codegen {

struct ProductInNest {
  loops::ExprId reduce;       ///< the sum
  loops::ExprId left, right;  ///< the two loads, in the order of the text
  DType dtype = DType::Float16;
};

/// Nothing where the nest holds other reductions, loops of its own, or operands that are computed.
std::optional<ProductInNest> findProduct(const loops::Program&, const loops::Nest&);

/// Whether the program is one product and its epilogue. False where what is behind the sum reads elements of it at
/// other places than its own.
bool isProductWithEpilogue(const loops::Program&);

}  // namespace graft::codegen
