// Which node reads each value last, so that its tensor can be freed then. Where a nested block reads a value, the node
// that holds the block counts as the reader. Private to core/torch.
//
//   const LastUses uses(graph);
//   if (uses.diesAt(value, node)) …
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace graft {

class LastUses {
 public:
  explicit LastUses(const Graph&);

  /// The block that the value is computed in or is a parameter of.
  BlockId home(ValueId) const;
  bool isUsed(ValueId v) const { return last_[v.index] || returned_[v.index]; }
  /// Nobody reads it after the node, which is in its own block.
  bool diesAt(ValueId v, NodeId node) const { return last_[v.index] == node && !returned_[v.index]; }
  /// The last reader reads it in one of its blocks, not only as an argument of its own.
  bool insideLast(ValueId v) const { return inside_[v.index]; }

 private:
  void note(ValueId, NodeId user, bool inside);
  void noteReturns(BlockId);

  const Graph& g_;
  std::vector<NodeId> last_;    ///< in the value's own block
  std::vector<bool> returned_;  ///< by its own block
  std::vector<bool> inside_;    ///< by a block of last_
};

}  // namespace graft
