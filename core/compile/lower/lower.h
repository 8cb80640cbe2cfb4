// Lowering: a group of operators, as a graph of its own, becomes loops.
//
//   Traits t = traitsOf(graph, node);              // t.kind == Kind::None: it stays an operator, t.whyNot says why
//   Result<loops::Program> p = lower(group);       // all nodes of `group` as one program
//
// A node's types must be known: dtype and shape of each tensor, sizes as numbers or expressions of symbols. f16 and
// bf16 are computed in f32 and rounded where they are stored, where the model casts to them, and ahead of what jumps
// (comparisons, rounding, places of maxima).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compile/loops/program.h"
#include "core/ir/graph.h"

namespace graft::lower {

/// How an operator with these arguments becomes loops.
enum class Kind : uint8_t {
  None,       ///< not at all
  Size,       ///< an integer made of sizes: no loop
  Pointwise,  ///< each element from the elements at its place
  View,       ///< each element is one of an operand's, or a constant: another index
  Gather,     ///< likewise, at a place that elements of another operand say
  Reduction,  ///< from all elements along dimensions: sums, and what is made of them (softmax, norms)
  Scan,       ///< from all elements so far along a dimension
  Window,     ///< from the elements of a window
  Factory,    ///< reads no tensor
  Product,    ///< sums of products of rows and columns: matrix products
};
std::string_view kindName(Kind);

/// What a fusion needs to know of a node.
struct Traits {
  Kind kind = Kind::None;
  /// Reduction and Scan: along which dimensions of the first operand, from 0.
  std::vector<int64_t> reducedDims = {};
  /// Product: the places of the arguments that are multiplied. Each of their elements is read many times.
  std::vector<size_t> multiplied = {};
  /// Operations for one element of the result, those of the operands not counted. Reduction, Scan and Window: for each
  /// element that is read.
  double cost = 0;
  /// Reads elements of an operand more than once for one result or several: an expensive producer is not computed
  /// inside, but gets a buffer of its own.
  bool repeatsReads = false;
  /// Of each row of its first operand it reads one element: that of the class that its second operand names.
  bool picksFromFirst = false;
  /// Its rows are few and long, so that parts of them are combined first, by more threads than there are rows.
  bool takesRowsApart = false;
  std::string whyNot = {};  ///< of None: names the operator and the argument
};

/// Takes microseconds.
Traits traitsOf(const Graph&, const Node&);

/// What loops are for. It decides in which order and in how many nests they run, and nothing that they compute.
struct Machine {
  /// Fewer than 8 rows leave processors idle: those of more elements than this are taken apart.
  int64_t rowElements = 32768;
  /// Of images whose channels lie side by side, a group norm goes over its rows, which are pieces of so many channels,
  /// from this many on; below, over the memory as it lies.
  int64_t channelsTogether = INT64_MAX;
  /// Columns, which lie side by side in memory, are taken apart where there are fewer than blocks to keep all
  /// processors busy, at least `least` side by side, and so many elements in a part and in all.
  struct Columns {
    int64_t least = 8, partLength = 64, elements = INT64_MAX;
  } columns = {};
  /// For mean and variance, which parts of rows read once, fewer than `fewRows` rows of more than `elements` are taken
  /// apart, too.
  struct Statistics {
    int64_t fewRows = 0, elements = 0;
  } statistics = {};
  /// Each nest is a kernel to wait for: rather a little work twice.
  bool isGpu = false;
};
inline constexpr Machine::Columns kColumnsOfGpu{.elements = 1 << 19};
/// On a GPU, rows of at most so many elements have their columns summed up by the same kernel, in registers.
inline constexpr int64_t kMostColumnsWithRows = 8192;
/// A GPU on which blocks of threads share a row, up to what their registers and their own memory hold.
inline constexpr Machine kGpuWithClusters{
    .rowElements = 1 << 18, .channelsTogether = 8, .columns = kColumnsOfGpu, .isGpu = true};
/// Half of the multiprocessors, and what a block of threads holds in registers.
inline constexpr Machine::Statistics kStatisticsOfGpu{.fewRows = 64, .elements = 1 << 14};
inline constexpr Machine kGpu{
    .channelsTogether = 8, .columns = kColumnsOfGpu, .statistics = kStatisticsOfGpu, .isGpu = true};

/// The whole graph as one program. Its inputs are the graph's tensors, in order. Its sizes are the symbols of types
/// and the graph's integer inputs, in the order in which they first appear, inputs before nodes; a size is named as the
/// symbol or the value is, as far as programs spell such names. Its outputs are the graph's returns, in order. BadInput
/// where a node has no lowering, or a type is not known. Types that contradict their operators are refused here or by
/// loops::verify(), which every program has yet to pass. The origin of an expression is the index of the NodeId that it
/// is computed for, and 1.
///
/// `strides`: of each of the graph's tensors, in order, as a call has them, and, where they are known, of each of its
/// returns; without them, tensors lie row by row. They decide in which order the program goes over elements, and
/// nothing that it computes: it is right for all strides.
Result<loops::Program> lower(const Graph& group, std::span<const std::vector<int64_t>> strides = {},
                             const Machine& machine = {});

/// The operators that are lowered with some arguments, sorted by name.
struct LoweredOperator {
  std::string name;  ///< "aten.add.Tensor"
  Kind kind = Kind::None;
};
std::vector<LoweredOperator> loweredOperators();
/// Of an operator by its name, whatever its arguments; None where it has no lowering.
Kind kindOf(std::string_view op);

}  // namespace graft::lower
