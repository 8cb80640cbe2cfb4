// Expressions of loops: what one element of a result is. An expression is a node in a pool, named by its id. The pool
// keeps equal expressions once, so two are equal where their ids are, and a shared part is computed once.
//
//   ExprPool e;
//   ExprId i = e.range(RangeId(0));
//   ExprId y = e.binary(Op::Multiply, e.unary(Op::Exp, e.load(x, {i}, DType::Float32)), e.number(DType::Float32, 2.0));
//
// Expressions have one of the dtypes bool, u8, i8, i16, i32, i64, f32 and f64; f16 and bf16 occur in loads and casts
// alone. Indices are i64 expressions like any other. Nothing is evaluated that is not needed: of a Select, only the
// operand that its condition chooses. Where this says nothing else, an operation means what PyTorch's operator of that
// name means, with its NaN, Inf and -0; integers wrap around.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/id.h"
#include "core/ir/type.h"

namespace graft::loops {

using ExprId = Id<struct ExprTag>;
using RangeId = Id<struct RangeTag>;
using BufferId = Id<struct BufferTag>;
using SizeId = Id<struct SizeTag>;

enum class Op : uint8_t {
  // Leaves
  Constant,  ///< bits
  Range,     ///< the loop variable `range`, i64
  Size,      ///< the size that varies, `size`, i64
  Load,      ///< an element of `buffer`; one operand for each of its dimensions, i64, from 0
  // One operand
  Cast,  ///< to `dtype`: floating to integer cuts off, to bool is != 0, to f16 and bf16 rounds to f32, then to nearest
         ///< even
  Negate,
  Absolute,
  Not,  ///< of bool: logical; of integers: all bits
  Sign,
  Floor,
  Ceil,
  Round,  ///< to the nearest whole number, halves to even
  Truncate,
  Sqrt,
  Exp,
  ExpNonPositive,  ///< of x <= 0 or NaN: kernels leave out what only a greater x needs
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Erfc,
  LogGamma,  ///< log |gamma(x)|
  Sigmoid,   ///< 1 / (1 + exp(-x))
  // Two operands of one dtype
  Add,
  Subtract,
  Multiply,
  Divide,          ///< of floating numbers only
  FloorDivide,     ///< rounds down; an integer divisor is never 0 (see Checked)
  TruncateDivide,  ///< rounds to 0; likewise
  Remainder,       ///< has the divisor's sign, as Python's %; likewise
  Fmod,            ///< has the dividend's sign, as C's; likewise
  Power,
  Minimum,  ///< NaN where one is NaN
  Maximum,
  Atan2,
  Hypot,
  CopySign,
  NextAfter,  ///< the number beside the first operand, towards the second
  Gcd,  ///< the greatest common divisor, of integers; with the least number of a signed dtype it may be negative, as
        ///< Euclid's algorithm leaves it in PyTorch
  And,  ///< of bool and integers
  Or,
  Xor,
  ShiftLeft,
  ShiftRight,  ///< arithmetic
  Equal,       ///< the result is bool, as of the next three
  NotEqual,
  Less,
  LessEqual,
  // Three
  Select,  ///< bool condition, then, else
  // Checks: the first operand, where it is what it must be. Otherwise the run reports it, and goes on with a safe
  // value.
  CheckedIndex,    ///< operands value, size (i64): 0 <= value < size; goes on with 0
  CheckedDivisor,  ///< an integer that is not 0; goes on with 1
  // Four: i64, the seed, the subsequence, the block and the number in the block, 0 to 3
  Uniform,  ///< a random f32 in (0, 1]: Philox4x32-10 (Salmon et al., 2011), with cuRAND's conversion
  // Over ranges
  Reduce,  ///< one operand, combined over all values of `ranges`, the last one fastest
};

enum class ReduceKind : uint8_t {
  Sum,
  Product,
  Minimum,  ///< NaN where any is NaN, as the next
  Maximum,
  Any,  ///< of bool
  All,
  ArgMinimum,  ///< i64: the first place, counted over `ranges` in row-major order; NaN counts as the least
  ArgMaximum,  ///< likewise; NaN counts as the greatest
};

struct Expr {
  Op op = Op::Constant;
  DType dtype = DType::Int64;
  ReduceKind reduce = ReduceKind::Sum;  ///< of Reduce
  uint64_t bits = 0;                    ///< of Constant: the integer, 0 or 1, or the bits of the double
  uint32_t index = 0;                   ///< of Range, Size and Load: the id
  std::vector<ExprId> operands = {};
  std::vector<RangeId> ranges = {};  ///< of Reduce

  RangeId range() const { return RangeId(index); }
  SizeId size() const { return SizeId(index); }
  BufferId buffer() const { return BufferId(index); }
  bool operator==(const Expr&) const = default;
};

/// "multiply", as texts spell it.
std::string_view opName(Op);
std::string_view reduceName(ReduceKind);
size_t operandCount(Op);  ///< of Load: 0, since its buffer says it
bool isComparison(Op);
bool isPlace(ReduceKind);  ///< whether the result is the place of an element: of argmin and argmax

/// Owns expressions. Only grows.
class ExprPool {
 public:
  const Expr& operator[](ExprId id) const { return nodes_[id.index]; }
  size_t size() const { return nodes_.size(); }
  /// The expression as it is, found again where it exists. Operands come before it.
  ExprId add(Expr);

  /// What an expression was made for: a number that whoever made it chose; 0: nobody said. It is no part of what the
  /// expression is: equal ones are one, which keeps its first origin.
  uint32_t origin(ExprId id) const { return origins_[id.index]; }
  /// What is added while it lives has this origin.
  class MadeFor {
   public:
    MadeFor(ExprPool& pool, uint32_t origin) : pool_(pool), before_(std::exchange(pool.origin_, origin)) {}
    ~MadeFor() { pool_.origin_ = before_; }
    MadeFor(const MadeFor&) = delete;
    MadeFor& operator=(const MadeFor&) = delete;

   private:
    ExprPool& pool_;
    uint32_t before_;
  };

  ExprId integer(int64_t value) { return number(DType::Int64, value); }
  ExprId boolean(bool value) { return number(DType::Bool, static_cast<int64_t>(value)); }
  ExprId number(DType, double value);
  ExprId number(DType, int64_t value);
  ExprId range(RangeId);
  ExprId size(SizeId);
  ExprId load(BufferId, std::vector<ExprId> index, DType);
  ExprId cast(ExprId, DType);  ///< the operand itself where it has that dtype
  ExprId unary(Op, ExprId);
  ExprId binary(Op, ExprId, ExprId);  ///< bool for comparisons, the operands' dtype otherwise
  ExprId select(ExprId condition, ExprId then, ExprId otherwise);
  ExprId checkedIndex(ExprId value, ExprId size);
  ExprId checkedDivisor(ExprId);
  ExprId uniform(ExprId seed, ExprId subsequence, ExprId block, ExprId number);
  ExprId reduce(ReduceKind, std::vector<RangeId>, ExprId body);

  /// The value of a constant, where it is one.
  const int64_t* findInteger(ExprId) const;
  double constant(ExprId) const;  ///< of a Constant of any dtype

 private:
  struct Hash {
    size_t operator()(const Expr&) const;
  };
  std::vector<Expr> nodes_;
  std::vector<uint32_t> origins_;
  uint32_t origin_ = 0;  ///< of what is added now
  std::unordered_map<Expr, ExprId, Hash> ids_;
};

}  // namespace graft::loops
