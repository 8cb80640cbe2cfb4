// KnownStrides: how values lie in memory, where the graph says so.
//
//   KnownStrides strides(graph);
//   if (const auto* s = strides.of(value)) ...        // of f16[2,8,4,4] behind a convolution with channels last: 128,
//   1, 32, 8
//
// It refers to the graph, and knows what the graph said when a value was first asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

using Strides = std::vector<int64_t>;

/// The strides of a view of other sizes; nothing where that would be a copy. All sizes are above 0. Source: PyTorch's
/// at::detail::computeStride.
std::optional<Strides> stridesOfView(const std::vector<int64_t>& sizes, const Strides& strides,
                                     const std::vector<int64_t>& viewSizes);

class KnownStrides {
 public:
  explicit KnownStrides(const Graph& g) : g_(g) {}

  /// In elements, one for each dimension; null where a size varies, or an operator may choose.
  const Strides* of(ValueId);

 private:
  std::optional<Strides> find(ValueId);
  bool laysImages(const Node& n);
  std::optional<Strides> ofView(const Node& n, const std::vector<int64_t>& sizes);

  const Graph& g_;
  std::unordered_map<ValueId, std::optional<Strides>> known_;
};

}  // namespace graft
