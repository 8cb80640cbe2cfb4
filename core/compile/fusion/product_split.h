// A group with a matrix product or a convolution as two: the product, which a library computes, and what is behind it.
// What a generated kernel of both is timed beside, and what runs where that is faster.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct ProductSplit {
  /// A place among the group's tensor inputs; of `rest` also the product's result.
  struct Source {
    bool isProduct = false;
    size_t input = 0;
  };
  Graph product;                      ///< returns the product alone
  Graph rest;                         ///< returns what the group returns, without the product itself
  std::vector<Source> productInputs;  ///< of the tensor inputs of `product`; both take all numbers of the group
  std::vector<Source> restInputs;
  /// Of each result of the group: its place in the results of `rest`; nothing: it is the product.
  std::vector<std::optional<size_t>> results;
};

/// Of those that may be lowered: each channel has weights of its own.
bool isConvolution(std::string_view op);
/// Whether it has any matrix product or convolution.
bool holdsProduct(const Graph& group);
/// The only matrix product or convolution of a group; invalid where there are none or several.
NodeId productOf(const Graph& group);
/// Nothing where the group has no product, or several, or nothing behind it.
std::optional<ProductSplit> splitProduct(const Graph& group);

}  // namespace graft
