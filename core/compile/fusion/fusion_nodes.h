// What fusion knows of each node before it begins: whether it computes, only looks at another value, or cannot be part
// of a generated kernel; what it costs; which rows it works on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct FusionOptions;

/// A value that a node reads, behind the views that only look at it.
struct FusionRead {
  ValueId base;           ///< not made by a view of the node's block
  bool mayInline = true;  ///< false: elements are read many times, or at places that other values say
};

struct FusionNode {
  enum class Role : uint8_t {
    Barrier,  ///< not part of any group
    View,     ///< costs nothing in a kernel, and is repeated where it is read
    Compute,
  };
  Role role = Role::Barrier;
  std::string why;                ///< of a Barrier
  size_t epoch = 0;               ///< nodes that write or have effects come before it: it may not move across one
  std::vector<FusionRead> reads;  ///< each once, numbers too; of a Barrier too
  double elements = 0;            ///< of its iteration
  double operations = 0;          ///< for each element
  double outputBytes = 0;
  /// Worth a kernel without a neighbour: a norm or a softmax of few long rows, each of which a library gives to one
  /// thread, or to one block of a GPU; what PyTorch does in several kernels of a GPU, or slowly on a CPU or a GPU; or
  /// what the steering lists by itself.
  bool mayBeAlone = false;
  bool isJoin = false;     ///< each element is one of one of the tensors that its first argument lists
  bool isProduct = false;  ///< a matrix product, whose kernel may compute what is behind it
  bool isWindow = false;   ///< each element is made of a window of another tensor; no convolution
  /// Of a reduction, norm or scan: what tells rows apart. Nodes of equal row keys go over the same rows.
  bool hasRows = false;
  double rows = 0;
  std::vector<int64_t> rowKey;
  bool isOfColumns = false;  ///< a sum over the first dimensions alone: its rows are the columns of another's rows
  /// Of what it reads so few elements, one for each row: a loss those of its targets' classes. Invalid where it reads
  /// all.
  ValueId picksFrom;
  double picks = 0;
};

double bytesOf(const Type&);
double elementsOf(const Type&);
/// The view among `nodes`, by NodeId's index, that gives `value` and stands in that block; invalid where there is none.
NodeId viewBehind(const Graph&, const std::vector<FusionNode>& nodes, ValueId value, BlockId);
/// The value that `value` looks at through views of that block. A group in a branch or a loop reads what a view outside
/// of it gives.
ValueId baseOf(const Graph&, const std::vector<FusionNode>& nodes, ValueId value, BlockId);
/// One for each NodeId's index.
std::vector<FusionNode> fusionNodes(const Graph&, const FusionOptions&);

}  // namespace graft
