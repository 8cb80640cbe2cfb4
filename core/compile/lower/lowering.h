// What operators are lowered to, before loops are made of it: tensors as functions from an index to an expression.
//
//   TensorId y = l.define("y", DType::Float32, sizes, 10, {x}, [&l, x](const Index& i) { return exp(l.at(x, i)); });
//
// Private to core/compile/lower. A Lowering owns its program and tensors. Elements are computed when somebody asks for
// them: once for each index. lowering.cpp holds tensors and their elements, graph_sizes.cpp the graph's sizes and
// symbols, reduced_tensors.cpp reductions, at once or in parts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/compile/loops/simplify.h"
#include "core/compile/lower/lower.h"
#include "core/compile/lower/scalar.h"
#include "core/ir/graph.h"

namespace graft::lower {

using loops::ExprId;
using loops::Op;
using loops::RangeId;
using loops::ReduceKind;
using Index = std::vector<ExprId>;  ///< i64, one for each dimension
using Sizes = std::vector<ExprId>;  ///< i64, of constants and sizes
using TensorId = Id<struct LoweredTensorTag>;

/// Thrown where something has no lowering. traitsOf() and lower() catch it.
struct Refusal {
  std::string why;
};

/// What elements are computed in: f32 for f16 and bf16, the dtype itself otherwise. Refuses dtypes without loops.
DType computeType(DType);
bool isHalf(DType);

struct Tensor {
  enum class Form : uint8_t {
    Input,
    Inline,     ///< computed wherever it is read
    Shared,     ///< likewise, unless one iteration reads it at several places, or one place many times
    Repeated,   ///< gets a buffer: readers take each element many times
    Reduction,  ///< gets one, of one element in an iteration where that is enough
    Scan,       ///< gets one: `element` is what is combined along `scanDim`
  };
  std::string name;
  DType dtype = DType::Float32;  ///< as PyTorch has it
  Sizes sizes = {};
  std::function<ExprId(const Index&)> element = {};  ///< of computeType(dtype)
  Form form = Form::Inline;
  double cost = 0;  ///< operations for one element, with those of operands that are computed inside
  size_t scanDim = 0;
  ReduceKind scanKind = ReduceKind::Sum;
  loops::BufferId buffer = {};  ///< Input: the input. Otherwise the whole tensor, once somebody asked for it
  bool isNumber = false;        ///< a plain number, which promotes dtypes less than a tensor
  uint32_t origin = 0;          ///< of its expressions: the number of the node that it was made for; add() sets it
  /// The dimension along which neighbours lie side by side, where the call says so. Only speed may depend on it.
  std::optional<size_t> fastest = {};
  /// Of parts of columns, which reduceParts() makes the whole of: how many dimensions, the first ones, count parts.
  size_t columnParts = 0;
  bool isOfRows = false;  ///< of parts of columns: a kernel that goes over the rows may make them on the way
  bool isResult = false;  ///< stored in any case, so that nests which come later may read it
};

/// A list of tensors: the pieces that split and unbind make of one, or several that were broadcast.
struct TensorList {
  std::function<TensorId(size_t index, const std::string& name, DType, Sizes)> piece;
};

/// How many there are of each, counted over all dimensions.
struct RowsAndColumns {
  int64_t rows, columns;
  auto operator<=>(const RowsAndColumns&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

class Lowering {
 public:
  /// `rowsToo`: of tensors with so many rows and columns, both are reduced, in one pass over both.
  explicit Lowering(const Graph&, const Machine& = {}, std::set<RowsAndColumns> rowsToo = {});
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  const Graph& graph;
  const Machine machine;
  bool reducesRowsToo() const { return !rowsToo_.empty(); }
  loops::Program program;
  loops::Simplifier simplifier;
  loops::ExprPool& pool() { return program.expressions; }
  Scalar scalar(ExprId e) { return {&program.expressions, e}; }
  ExprId integer(int64_t n) { return simplifier.integer(n); }

  // Values of the graph
  /// Makes the tensors of a node's outputs. Operands that nobody made become inputs.
  void lowerNode(const Node&, Traits* = nullptr);
  TensorId tensorOf(ValueId);
  ExprId integerOf(ValueId);
  const TensorList& listOf(ValueId);
  void setTensor(ValueId v, TensorId t) { tensors_[v] = t; }
  void setInteger(ValueId v, ExprId e) { integers_[v] = e; }
  void setList(ValueId v, TensorList list) { lists_[v] = std::move(list); }
  TensorId addInput(ValueId);  ///< a tensor
  void setFastest(TensorId input, std::span<const int64_t> strides);
  void setFastest(TensorId t, size_t dim) { values_[t.index].fastest = dim; }
  void setFastest(loops::BufferId result, std::span<const int64_t> strides);
  /// The dimension of a buffer along which neighbours lie side by side, as far as that is known; 0 where it has none.
  size_t fastestOf(loops::BufferId) const;
  /// Says that a tensor's dimensions lie in memory in the order of another's, as far as that is known: so PyTorch lays
  /// out joined and resampled images.
  void setFastestAs(TensorId, TensorId other);
  /// A number from 0 on where an operator reads it; any where none does.
  void addIntegerInput(ValueId);
  /// dtype and sizes of a value; refuses one of which they are not known.
  std::pair<DType, Sizes> typeOf(ValueId);
  /// A size as Dim::symbol spells it.
  ExprId sizeOf(const Dim&, const std::string& whose);
  ExprId sizeOf(const std::string& expression, const std::string& whose);

  // Tensors
  const Tensor& operator[](TensorId t) const { return values_[t.index]; }
  size_t tensorCount() const { return values_.size(); }
  TensorId add(Tensor);
  /// One whose elements are computed from those of `operands`, by `cost` operations each.
  TensorId define(std::string_view name, DType, Sizes, double cost, std::span<const TensorId> operands,
                  std::function<ExprId(const Index&)> element);
  /// The same elements elsewhere.
  TensorId view(TensorId, Sizes, std::function<Index(const Index&)> source);
  TensorId number(DType, double);
  TensorId number(DType, int64_t);
  /// The combination over dimensions `dims` of `body`, whose dtype it has. Keeps them as 1 where `keep`. Where few
  /// elements combine many, parts are combined first, as many as sizes say, so that there is work for several threads.
  TensorId reduce(ReduceKind, TensorId body, std::span<const size_t> dims, bool keep);
  /// Likewise, but never in parts.
  TensorId reduceWhole(ReduceKind, TensorId body, std::span<const size_t> dims, bool keep);
  /// A dimension that a reduction takes apart: `count` parts of `each` indices, and what is left; each index of the
  /// `outer` dimensions has parts of its own.
  struct Parts {
    size_t dim;
    int64_t count, each, left;
    std::vector<size_t> outer = {};
    bool isColumns = false;  ///< memory runs along what is kept: the parts of one column lie apart
    bool isOfRows = false;   ///< of columns: what is reduced counts as one dimension, and the last part may be shorter
  };
  /// Parts of one length, where reduce() over `dims` would combine parts first: of columns, and of rows on a CPU.
  std::optional<Parts> findEvenParts(TensorId body, std::span<const size_t> dims) const;
  /// The same elements in a buffer of their own, which is there before somebody reads it.
  TensorId stored(TensorId);
  TensorId scan(ReduceKind, TensorId body, size_t dim);
  /// Says that a reader takes each element at several places of one iteration, or many times altogether.
  void share(TensorId);
  void repeat(TensorId);
  /// Says that one element serves many of a reader's.
  void keep(TensorId);
  /// Says that the tensor is a result too. On a CPU, what several nests need of it is stored once.
  void keepResult(TensorId);

  /// An element, of computeType(dtype). Of those that get a buffer: a load of it.
  ExprId at(TensorId, const Index&);
  Scalar scalarAt(TensorId t, const Index& i) { return scalar(at(t, i)); }
  /// The element that lies under index `i` of a tensor with sizes `to` that it broadcasts to.
  ExprId broadcastAt(TensorId, const Index& i, const Sizes& to);
  /// What is computed for an element, of those that get a buffer too.
  ExprId definition(TensorId, const Index&);
  /// Whether the expression is an element of a tensor of no half, as nests compute it.
  bool isWide(ExprId e) const { return wide_.contains(e); }
  /// Says that nests compute `as` for an element.
  void setComputed(ExprId element, ExprId as) {
    if (isWide(element)) wide_.insert(as);
  }
  /// The tensor whose whole buffer that is; invalid for others.
  TensorId tensorOfBuffer(loops::BufferId) const;
  TensorId inputOf(loops::BufferId) const;  ///< invalid for what is no input's

  /// Of a value with dtype `from`, what a tensor of dtype `to` holds. Ahead of what jumps, halves are rounded.
  Scalar convert(Scalar, DType from, DType to);
  /// Rounded to f16 or bf16, still f32. Other dtypes as they are.
  Scalar rounded(Scalar, DType);

  // Sizes
  bool isOne(ExprId size) const;
  ExprId product(std::span<const ExprId> sizes);
  std::optional<int64_t> findNumber(ExprId e) const {
    const int64_t* n = program.expressions.findInteger(e);
    return n ? std::optional(*n) : std::nullopt;
  }
  /// The number as the dtype holds it: of bool whether it is not 0.
  ExprId constant(DType d, double value) {
    return d == DType::Bool ? pool().boolean(value != 0) : pool().number(computeType(d), value);
  }

 private:
  struct Key {
    TensorId tensor;
    Index index;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key&) const;
  };
  std::optional<Parts> findParts(TensorId body, const std::vector<bool>& reduced, Machine::Statistics = {}) const;
  std::optional<Parts> findPartsOfColumns(TensorId body, const std::vector<bool>& reduced, int64_t wanted,
                                          int64_t columns) const;
  ExprId reductionOfRows(ReduceKind, TensorId body, const std::vector<bool>& reduced, const Index& kept, const Parts&,
                         ExprId part);
  TensorId reduceParts(ReduceKind, TensorId body, const std::vector<bool>& reduced, bool keep, const Parts&);
  ExprId reduction(ReduceKind, TensorId body, const std::vector<bool>& reduced, const Index& kept, size_t dim,
                   ExprId first, ExprId extent);
  std::optional<size_t> fastestOf(const Sizes&, std::span<const int64_t> strides) const;
  std::optional<ExprId> pickedOut(RangeId, ExprId element);
  loops::SizeId symbol(const std::string& name);
  std::string sizeName(const std::string& wish) const;

  const std::set<RowsAndColumns> rowsToo_;
  bool hasParts_ = false;
  uint32_t origin_ = 0;  ///< of the node that is lowered now
  std::vector<Tensor> values_;
  std::unordered_map<ValueId, TensorId> tensors_;
  std::unordered_map<ValueId, ExprId> integers_;
  std::unordered_map<ValueId, loops::SizeId> unreadIntegers_;  ///< inputs that no operator has asked for yet
  std::unordered_map<ValueId, TensorList> lists_;
  std::unordered_map<std::string, loops::SizeId> symbols_;
  std::unordered_map<Key, ExprId, KeyHash> elements_;
  std::unordered_set<ExprId> wide_;
  std::unordered_map<loops::BufferId, TensorId> buffers_, inputs_;
  std::unordered_map<loops::BufferId, size_t> fastestOfResults_;
};

/// Fewer iterations than this leave processors idle, unless the whole is small (Machine::rowElements).
constexpr int64_t fewIterations = 8;

/// Cheap enough to be computed at each place that reads it.
constexpr double cheapCost = 6;

}  // namespace graft::lower
