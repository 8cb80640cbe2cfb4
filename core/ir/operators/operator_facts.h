// What is known of operators beyond their schemas: one table (fact_lines.h), an operator a line, which the normal form,
// the matcher, the passes, the executor and the drawings ask. A test runs LibTorch's operators against each line.
//
//   op->is(OperatorFact::Pointwise)                       // of an Operator: one load and one mask
//   op->facts->shape == ShapeRule::AsFirst
//   factsOf("aten.add.Scalar").has(OperatorFact::Commutative)   // by name: one look-up
//
// The schema says what an operator writes and which of its results may alias which argument; the table repeats none of
// that. Facts of graft:: operators come from their descriptions (graft_operators.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace graft {

/// A fact that holds or does not. Values can be combined: has(A | B) is whether one of them holds.
enum class OperatorFact : uint32_t {
  None = 0,

  // What is computed
  /// Each element of the result depends on the elements at its place alone, of all tensors that the operator takes.
  /// They broadcast against each other.
  Pointwise = 1u << 0,
  /// Exchanging the first two arguments computes the same.
  Commutative = 1u << 1,
  /// Each element of the result is one of the first argument's, unchanged.
  MovesOnly = 1u << 2,
  /// Reshapes: the same elements in the same order under another shape.
  Reshape = 1u << 3,
  /// Only hands its first argument on: equal values, and no copy that anybody could tell from it.
  Identity = 1u << 4,
  /// Hands its first argument on where it is switched off (train=False or p=0).
  Dropout = 1u << 5,
  /// Cuts its first argument into a list of tensors.
  Splits = 1u << 6,
  /// Arithmetic of two integers, or the negative of one, as sizes are computed.
  IntegerArithmetic = 1u << 7,
  /// Asks a tensor for its shape or dtype; reads none of its elements.
  MetadataOnly = 1u << 8,
  /// Defined for integers of any size, so that verification may try others than the model's own. Shifts and powers
  /// are not: large integers overflow there.
  AnyIntegers = 1u << 9,
  /// The result jumps where an operand changes a little, so the value is meant that PyTorch's operator finds in memory:
  /// what is computed in more digits than a half has is rounded ahead of it.
  Jumps = 1u << 27,

  // Memory
  /// The result always lies in the first argument's memory.
  View = 1u << 10,
  /// The result lies there where layout and dtype allow it, otherwise in new memory.
  MayView = 1u << 11,
  /// The result may be the argument itself, although the schema promises new memory.
  MayReturnArgument = 1u << 12,
  /// The result is contiguous, whatever the operands' strides are.
  RowMajor = 1u << 13,
  /// Of a first argument that is contiguous, the result is contiguous too.
  KeepsLayout = 1u << 14,
  /// The strides of the results do not follow those of the operands.
  OwnLayout = 1u << 15,

  // Writing in place
  /// There is an operator of this name with a "_", which writes the same into its first argument.
  InPlaceTwin = 1u << 16,
  /// Writes what does not come from the elements that were there, or changes no elements: it has no functional form.
  NoFunctionalForm = 1u << 17,
  /// Changes the shape of its argument in place.
  ReshapesInPlace = 1u << 18,

  // Effects that schemas do not show
  /// Draws from a random generator.
  Random = 1u << 19,
  /// Prints, raises, writes files.
  SideEffects = 1u << 20,
  /// A guard that torch.export leaves behind: it asserts what types say already.
  Guard = 1u << 21,
  /// Control flow and containers of the graph's own language, which carry no schema.
  Structural = 1u << 22,

  // How LibTorch takes it
  /// In normal form, a plain number may stand for one of its tensors (x / 8.0).
  NumberOperand = 1u << 23,
  /// Takes a 0-dim tensor on the CPU beside tensors on a GPU. Others would copy it there in every run, which cannot be
  /// captured in a CUDA graph.
  CpuNumber = 1u << 24,
  /// LibTorch has no kernel for meta tensors. The result's type is the first argument's.
  NoMetaKernel = 1u << 25,
  /// Takes None for any tensor but the first, although its schema says Tensor: LibTorch's undefined tensor.
  AbsentTensors = 1u << 26,
};

constexpr OperatorFact operator|(OperatorFact a, OperatorFact b) {
  return static_cast<OperatorFact>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}

enum class OperatorFamily : uint8_t {
  Unknown,
  Arithmetic,  ///< element by element, comparisons and bits too
  Activation,  ///< what networks have between layers, and the elementary functions that norms are made of
  Softmax,
  Reduction,  ///< along the argument `dim`, with `keepdim`, where the overload has them
  Scan,       ///< cumulative sums and sorting: along a dimension, which stays
  Normalization,
  Product,  ///< of matrices
  Convolution,
  Pooling,
  Lookup,   ///< elements chosen by indices or a mask
  Shape,    ///< views, permutations, pieces, joins, copies, containers
  Cast,     ///< to another dtype or device
  Factory,  ///< a tensor from sizes, a dtype and a device
  Query,    ///< a size or another property
  Control,  ///< control flow, containers, effects
};

/// What the shape of the first result follows from.
enum class ShapeRule : uint8_t {
  Unknown,
  AsFirst,    ///< the first argument's shape
  Broadcast,  ///< all tensors broadcast against each other
  Listed,     ///< the second argument lists the result's sizes
  Permuted,   ///< the first argument's sizes in the order that the second lists
  SameRank,   ///< as many dimensions as the first argument has, or as each tensor of its list
  OneMore,    ///< one more dimension than that
  OneLess,    ///< one less
  Product,    ///< the product of two matrices, the dimensions before them broadcast
  Lookup,     ///< the shape of the second argument, and one more dimension
  Reduced,    ///< `dim` is gone, or 1 with `keepdim`; all of them where no `dim` is given
};

/// What the dtype of the first result follows from. An argument `dtype` that is given decides before any rule.
enum class DTypeRule : uint8_t {
  Unknown,
  First,            ///< that of the first argument
  KeepsFloating,    ///< that of the first argument where it is floating; integers become something else
  Promotes,         ///< PyTorch's type promotion of all tensors and numbers
  PromotesToFloat,  ///< likewise, and integers become the default dtype
  Common,           ///< all tensors have one dtype, the result too
  Joined,           ///< of a list of tensors: their dtype where they agree
  Bool,             ///< but uint8 of a reduction of uint8 (any, all)
  Int64,
  DefaultFloat,  ///< PyTorch's default dtype
};

/// One line of the table.
struct OperatorFacts {
  std::string_view name;  ///< "aten.softmax": all overloads with tensors; "aten.max.dim": that overload alone
  OperatorFamily family = OperatorFamily::Unknown;
  ShapeRule shape = ShapeRule::Unknown;
  DTypeRule dtype = DTypeRule::Unknown;
  OperatorFact facts = OperatorFact::None;

  /// Whether the fact, or one of several, holds.
  constexpr bool has(OperatorFact f) const { return (static_cast<uint32_t>(facts) & static_cast<uint32_t>(f)) != 0; }
  /// About one overload, not about all of an operator's.
  bool isOverload() const { return name.find('.') != name.rfind('.'); }
};

/// What is known of an operator that the table lacks.
inline constexpr OperatorFacts noOperatorFacts{};

/// The line of the operator that stands for `name` in normal form ("aten.mul" for "aten.multiply.Scalar"), of its
/// overload where there is one; `noOperatorFacts` where the table knows neither. Never goes away.
const OperatorFacts& factsOf(std::string_view name);

/// The whole table, in the order it is written in.
const std::vector<OperatorFacts>& allOperatorFacts();

}  // namespace graft
