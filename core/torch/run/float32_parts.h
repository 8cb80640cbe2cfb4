// What of a float32 model stays in float32 when the model is brought to half precision. A trace says `float32` both
// where the author wrote it and where the model merely was in it, so this reads the data's flow instead:
//
// - What depends neither on a parameter nor on a floating-point input: rotary tables, position buckets, time steps and
//   masks are computed from whole numbers and buffers. Half precision has no 2049 and, as bfloat16, no 257.
// - Squares that are summed up (a root mean square, a variance, a length): in float16 they overflow above 255. What
//   follows from these alone, or from them and the values that were squared, stays with them, as in
//   `x.float() * rsqrt(x.float().pow(2).mean(-1) + eps)`.
// - Quotients of products, and of sums, that share an operand (an attention without softmax: `(q @ (k.T @ v)) /
//   (q @ k.sum(0))`), with the products of activations that these are made of. Both grow with what is summed up, and
//   overflow in float16, where the quotient does not.
// - An attention's scores, from where distances are added to them (ALiBi) to the softmax: as PyTorch promotes them.
// - Operators of which PyTorch has no kernels in half precision: Fourier transforms, decompositions of matrices, cdist.
//   In double precision, those without kernels in that: products of groups of rows.
// - The nodes that the caller names (inDTypeWithinRange finds out which overflow).
//
// Casts stand where these parts meet the rest, so each operator gets operands of one dtype.
//
//   const Float32Parts parts = keepFloat32(graph, change);
//   parts.graph, parts.keeps(node), parts.keepsWeight(value)
//
// Private to core/torch. Includes no LibTorch.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/run/dtype_change.h"

namespace graft {

struct Float32Parts {
  Graph graph;                       ///< the graph with these casts; nodes and values of the original keep their ids
  std::vector<char> nodes, weights;  ///< by id: 1 where it stays in float32
  /// By id, of casts that were inserted: the node of the original whose value they bring over, or that wants it.
  std::vector<NodeId> serves;
  size_t originalNodes = 0;  ///< the bound of ids in the original

  bool keeps(NodeId n) const { return n.index < nodes.size() && nodes[n.index]; }
  bool keepsWeight(ValueId v) const { return v.index < weights.size() && weights[v.index]; }
};

/// `named` stay in float32 besides, but for those that write to memory or hold blocks. Nothing where the change is not
/// from float32 to half precision, and on the way to double precision where no operator lacks it.
std::optional<Float32Parts> keepFloat32(const Graph&, const DTypeChange&, const std::vector<NodeId>& named = {});

}  // namespace graft
