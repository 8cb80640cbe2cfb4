// Call: a node while it is lowered: its arguments, as operators ask for them, and where its results go.
//
//   {"aten.neg.default", Kind::Pointwise, [](Call& c) { … c.tensor("self") …; c.result(t); }}
//
// Private to core/compile/lower.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/compile/lower/lowering.h"

namespace graft::lower {

struct Call {
  Lowering& l;
  const Node& node;
  Traits& traits;

  [[noreturn]] void refuse(std::string_view parameter, std::string_view why) const;
  [[noreturn]] void refuse(std::string_view why) const;

  // Arguments. Each refuses what it does not take.
  const Argument& argument(std::string_view parameter) const;
  const Argument& positional(size_t) const;
  bool has(std::string_view parameter) const;  ///< given, and not None
  TensorId tensor(std::string_view parameter) const;
  TensorId tensor(const Argument&, std::string_view parameter) const;  ///< a number too
  std::vector<TensorId> tensors(std::string_view parameter) const;
  int64_t integer(std::string_view parameter) const;
  int64_t known(ExprId, std::string_view parameter) const;
  ExprId size(std::string_view parameter) const;  ///< an integer that sizes may be in
  ExprId size(const Argument&, std::string_view parameter) const;
  std::vector<int64_t> integers(std::string_view parameter) const;  ///< one number is a list of one
  std::vector<ExprId> sizeList(std::string_view parameter) const;
  double number(std::string_view parameter) const;
  bool flag(std::string_view parameter) const;
  std::string_view text(std::string_view parameter) const;
  std::optional<DType> dtype(std::string_view parameter) const;
  size_t dim(std::string_view parameter, size_t rank) const;
  size_t dim(int64_t, size_t rank, std::string_view parameter) const;
  size_t dimOf(TensorId, std::string_view parameter) const;  ///< of a tensor that has some
  /// Those of a list of dimensions, ascending; all of them where it is None or empty.
  std::vector<size_t> dims(std::string_view parameter, size_t rank) const;

  // Results
  DType resultType(size_t output = 0) const;
  DType floatingType() const;  ///< the first one's; refuses others
  Sizes resultSizes(size_t output = 0) const;
  Sizes resultOfRank(size_t rank) const;  ///< the first one's sizes
  ValueId output(size_t i = 0) const;
  void result(TensorId, size_t output = 0);
  void requireType(TensorId) const;  ///< refuses an operand of another dtype than the result's

  const Sizes& sizes(TensorId t) const { return l[t].sizes; }
  DType type(TensorId t) const { return l[t].dtype; }
  size_t rank(TensorId t) const { return l[t].sizes.size(); }

  // What several families make
  using Formula = std::function<Scalar(std::span<const Scalar>)>;
  /// Element by element, the operands broadcast and converted to `compute`, and rounded to it where the operator jumps.
  /// The formula gives the compute type of the result, or of `gives`.
  /// `linear`: so many of the first operands do not jump (the gradient of what does).
  TensorId pointwise(std::initializer_list<TensorId> operands, DType compute, DType gives, double cost, Formula,
                     size_t linear = 0) const;
  TensorId pointwise(std::span<const TensorId> operands, Sizes, DType compute, DType gives, double cost, Formula,
                     size_t linear = 0) const;
  /// The tensor in another dtype, as `to` makes it: explicit, so halves are rounded.
  TensorId cast(TensorId, DType) const;
  /// The same without rounding: what an operator computes in.
  TensorId widened(TensorId, DType) const;
  TensorId reshaped(TensorId, Sizes) const;
  TensorId expanded(TensorId, Sizes) const;
  /// The sizes that tensors broadcast to: the first that is not known to be 1, for each dimension.
  Sizes commonSizes(std::span<const TensorId>) const;
  TensorId permuted(TensorId, std::span<const size_t> order) const;
  /// For each index of a tensor with these sizes, the combination of what `element` gives over loops of these extents,
  /// whose ranges are `offsets`. Of no loops: what it gives.
  TensorId combined(ReduceKind, DType, Sizes, std::vector<ExprId> extents,
                    std::function<ExprId(const Index& i, const Index& offsets)> element) const;
  /// The same within an expression, for one index. Of no loops, the place of the least or the greatest is 0.
  static ExprId combination(Lowering&, ReduceKind, std::span<const ExprId> extents,
                            const std::function<ExprId(const Index& offsets)>& element);
  std::vector<ExprId> constants(std::span<const int64_t>) const;
  std::string name() const;
};

/// The dtype in which PyTorch combines the operands: tensors with dimensions before those without, and both before
/// numbers, unless a later one is of a higher category.
DType promoted(const Lowering&, std::span<const TensorId>);
DType promoted(DType, DType);

struct Entry {
  std::string name;
  Kind kind = Kind::None;
  std::function<void(Call&)> build;
};

// One for each family, in the file of that name.
std::vector<Entry> pointwiseOperators();
std::vector<Entry> activationOperators();
std::vector<Entry> specialOperators();
std::vector<Entry> castOperators();
std::vector<Entry> viewOperators();
std::vector<Entry> joinOperators();
std::vector<Entry> reductionOperators();
std::vector<Entry> normOperators();
std::vector<Entry> lossOperators();
std::vector<Entry> gradientOperators();
std::vector<Entry> lookupOperators();
std::vector<Entry> scatterOperators();
std::vector<Entry> orderOperators();
std::vector<Entry> factoryOperators();
std::vector<Entry> windowOperators();
std::vector<Entry> resamplingOperators();
std::vector<Entry> sizeOperators();
std::vector<Entry> productOperators();

/// Null where the operator has no lowering.
const Entry* findEntry(std::string_view name);

}  // namespace graft::lower
