// Mean and variance, and maps over tensors that are being lowered: what reductions and norms are made of.
//
// Private to core/compile/lower/operators.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "core/compile/lower/lowering.h"

namespace graft::lower {

/// The product of the sizes along `dims`.
ExprId countOf(Lowering&, TensorId, std::span<const size_t> dims);
/// A number of elements, in the dtype of `like`.
Scalar countAs(Lowering&, ExprId n, Scalar like);
/// f of each element, in the compute type of `gives`.
TensorId mapped(Lowering&, TensorId, double cost, DType gives, std::function<Scalar(Scalar)>,
                std::string_view name = {});
/// f of each element of `x` and the element of `y` that broadcasts to its place.
TensorId mappedWith(Lowering&, TensorId x, TensorId y, double cost, DType gives, std::function<Scalar(Scalar, Scalar)>);

/// Halves as they are in memory: where the place of an extreme, or an order, follows from them.
TensorId roundedOperand(Lowering&, TensorId x);

// Along `dims`, which stay as 1. `x` has floating numbers.
TensorId meanOf(Lowering&, TensorId x, std::span<const size_t> dims);
struct Statistics {
  TensorId mean, variance;
  bool isInParts = false;  ///< both are stored before somebody reads them
};
/// In two passes, as ATen's: the mean first. On a GPU, long columns are read once, in parts. Divides by the count less
/// `correction`.
Statistics statisticsOf(Lowering&, TensorId x, std::span<const size_t> dims, double correction);

TensorId logSoftmaxOf(Lowering&, TensorId x, std::span<const size_t> dims);

}  // namespace graft::lower
