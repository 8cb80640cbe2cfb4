// Runs a model in another dtype: which of the graph's literal dtypes follow, and which numbers would overflow. Private
// to core/torch.
//
//   DTypeChange change = changeTo(graph, DType::Float16);
//   change.of(DType::Float32);    // Float16, where the model is in Float32
//   change.number(-3.4e38);       // -65504
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/ir/graph.h"

namespace graft {

/// The largest finite number of a floating dtype.
double largest(DType);

/// Which dtype the model computes in: that of most of its floating weights' elements, else of its floating inputs.
std::optional<DType> modelDType(const Graph&);

struct DTypeChange {
  std::optional<DType> from, to;  ///< `to` absent: nothing changes

  DType of(DType) const;
  /// -3.4e38 marks masked places in float32; in half precision the largest finite number does, infinity would give NaN.
  double number(double) const;
  /// The argument with both in it, in lists and tuples too.
  Argument argument(const Argument&) const;
  /// The argument of a node that stays in float32 (float32_parts.h). Its result may become a mask in `to`: numbers that
  /// are too far below zero for that are adapted, and nothing else.
  Argument keptArgument(const Argument&) const;

 private:
  template <class OfDType, class OfNumber>
  static Argument mapped(const Argument&, const OfDType&, const OfNumber&);
};

/// The change that brings a model to the dtype. None where it computes in that dtype already: what its author, or an
/// earlier change, left in another dtype stays (a table in float32, and the cast that follows it).
DTypeChange changeTo(const Graph&, std::optional<DType>);

/// Makes floating-point tensors from sizes alone, "aten.zeros(2, 3)": in whatever dtype is PyTorch's default where its
/// argument `dtype` is None.
bool makesFloats(const Node&);

/// The data of a weight that stays in float32: the same as DTypeChange::keptArgument does to numbers.
at::Tensor keptWeight(const at::Tensor& data, DType to);
/// The data of weight `v`, in `to` where it is floating. Masks are kept in buffers and constants: there, what is finite
/// stays finite (see DTypeChange::number). Throws what LibTorch throws.
at::Tensor weightInDType(const Value& v, const at::Tensor& data, DType to);

}  // namespace graft
