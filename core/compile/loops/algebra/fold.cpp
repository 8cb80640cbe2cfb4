#include "core/compile/loops/algebra/fold.h"

#include <bit>
#include <cmath>
#include <optional>

#include "core/compile/loops/element.h"

namespace graft::loops {
namespace {

bool isInteger(DType d) { return !isFloatingPoint(d) && d != DType::Bool; }

// Bits of the significand, of floating dtypes; of integers, bits of their magnitude.
int precision(DType d) {
  switch (d) {
    case DType::Bool:
      return 1;
    case DType::Int8:
      return 7;
    case DType::UInt8:
    case DType::BFloat16:
      return 8;
    case DType::Float16:
      return 11;
    case DType::Int16:
      return 15;
    case DType::Float32:
      return 24;
    case DType::Int32:
      return 31;
    case DType::Float64:
      return 53;
    default:
      return 63;
  }
}

bool isSigned(DType d) {
  return isFloatingPoint(d) || d == DType::Int8 || d == DType::Int16 || d == DType::Int32 || d == DType::Int64;
}

// Whether `to` has every value of `from`.
bool holdsAll(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  if (isFloatingPoint(from) && !isFloatingPoint(to)) return false;
  // The exponents of f16 do not hold bf16's numbers, nor do bf16's digits f16's; the larger dtypes hold both.
  if (isFloatingPoint(from)) return to == DType::Float64 || (to == DType::Float32 && from != DType::Float64);
  if (isSigned(from) && !isSigned(to)) return false;
  return precision(from) <= precision(to);
}

// Whether a cast to `middle` between the two changes nothing of the result.
bool isPassing(DType from, DType middle, DType to) {
  if (!holdsAll(from, middle)) return false;
  // An integer wraps around where a floating number would leave the integers' range.
  if (!isFloatingPoint(from) && isFloatingPoint(middle) && !isFloatingPoint(to))
    return to == DType::Bool || holdsAll(from, to);
  return true;
}

// The value of a constant, as operations take it.
Element valueOf(const Expr& e) {
  return isFloatingPoint(e.dtype) ? Element::of(std::bit_cast<double>(e.bits))
                                  : Element::of(static_cast<int64_t>(e.bits));
}
ExprId addValue(ExprPool& pool, DType dtype, Element value) {
  return isFloatingPoint(dtype) ? pool.number(dtype, value.floating) : pool.number(dtype, value.integer);
}

// Whether an operation of floating constants has one result, whoever computes it.
bool isRoundedOnce(Op op) { return op == Op::Add || op == Op::Subtract || op == Op::Multiply || op == Op::Divide; }

std::optional<ExprId> foldCast(ExprPool& pool, const Expr& e) {
  const Expr from = pool[e.operands[0]];
  if (from.op == Op::Cast) {
    const ExprId inner = from.operands[0];
    if (isPassing(pool[inner].dtype, from.dtype, e.dtype)) return pool.cast(inner, e.dtype);
    return std::nullopt;
  }
  // f16 and bf16 have no constants.
  if (from.op != Op::Constant || e.dtype == DType::Float16 || e.dtype == DType::BFloat16) return std::nullopt;
  if (isFloatingPoint(from.dtype) && isInteger(e.dtype)) {
    // Only where the dtype has the number: what becomes of others depends on the machine.
    const double whole = std::trunc(valueOf(from).floating);
    if (!(whole >= -9.2e18 && whole <= 9.2e18)) return std::nullopt;
    const auto integer = static_cast<int64_t>(whole);
    if (wrapped(integer, e.dtype) != integer) return std::nullopt;
  }
  return addValue(pool, e.dtype, castElement(valueOf(from), from.dtype, e.dtype));
}

std::optional<ExprId> foldUnary(ExprPool& pool, const Expr& e) {
  const ExprId a = e.operands[0];
  const Expr& x = pool[a];
  if (e.op == Op::Cast) return foldCast(pool, e);
  if (e.op == Op::CheckedDivisor && x.op == Op::Constant && x.bits != 0) return a;
  if (e.op == Op::Negate) {
    if (x.op == Op::Negate) return x.operands[0];
    if (x.op == Op::Constant) return addValue(pool, x.dtype, computeUnary(e.op, x.dtype, valueOf(x)));
  }
  if (e.op == Op::Not) {
    if (x.op == Op::Not) return x.operands[0];
    if (x.op == Op::Constant) return addValue(pool, x.dtype, computeUnary(e.op, x.dtype, valueOf(x)));
  }
  return std::nullopt;
}

std::optional<ExprId> foldLogical(ExprPool& pool, const Expr& e) {
  const ExprId a = e.operands[0], b = e.operands[1];
  if (e.op != Op::And && e.op != Op::Or) return std::nullopt;
  if (a == b) return a;
  if (e.dtype != DType::Bool) return std::nullopt;
  const bool neutral = e.op == Op::And;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)})
    if (const int64_t* n = pool.findInteger(one)) return (*n != 0) == neutral ? other : one;
  return std::nullopt;
}

std::optional<ExprId> foldBinary(ExprPool& pool, const Expr& e) {
  const ExprId a = e.operands[0], b = e.operands[1];
  const Expr x = pool[a], y = pool[b];
  const bool areConstant = x.op == Op::Constant && y.op == Op::Constant;
  if (isComparison(e.op)) {
    if (areConstant) return pool.boolean(computeBinary(e.op, x.dtype, valueOf(x), valueOf(y)).integer != 0);
    if (a == b && !isFloatingPoint(x.dtype)) return pool.boolean(e.op == Op::Equal || e.op == Op::LessEqual);
    return std::nullopt;
  }
  if (isFloatingPoint(e.dtype)) {
    if (areConstant && isRoundedOnce(e.op))
      return addValue(pool, e.dtype, computeBinary(e.op, e.dtype, valueOf(x), valueOf(y)));
    const auto is = [](const Expr& c, double value) {
      return c.op == Op::Constant && c.bits == std::bit_cast<uint64_t>(value);
    };
    if ((e.op == Op::Multiply || e.op == Op::Divide) && is(y, 1.0)) return a;
    if (e.op == Op::Multiply && is(x, 1.0)) return b;
    if ((e.op == Op::Subtract && is(y, 0.0)) || (e.op == Op::Add && is(y, -0.0))) return a;
    if (e.op == Op::Add && is(x, -0.0)) return b;
    return std::nullopt;
  }
  if (e.dtype == DType::Bool && e.op != Op::Xor) return foldLogical(pool, e);
  const bool divides = e.op == Op::FloorDivide || e.op == Op::TruncateDivide;
  if (areConstant) {
    // A division by 0 stays, to be refused.
    if (y.bits == 0 && (divides || e.op == Op::Remainder || e.op == Op::Fmod)) return std::nullopt;
    return addValue(pool, e.dtype, computeBinary(e.op, e.dtype, valueOf(x), valueOf(y)));
  }
  if (!isInteger(e.dtype)) return std::nullopt;
  const auto isNumber = [](const Expr& c, int64_t value) {
    return c.op == Op::Constant && static_cast<int64_t>(c.bits) == value;
  };
  if ((e.op == Op::Add || e.op == Op::Subtract) && isNumber(y, 0)) return a;
  if (e.op == Op::Add && isNumber(x, 0)) return b;
  if ((e.op == Op::Multiply || divides) && isNumber(y, 1)) return a;
  if (e.op == Op::Multiply && isNumber(x, 1)) return b;
  if (a == b && (e.op == Op::Minimum || e.op == Op::Maximum)) return a;
  return foldLogical(pool, e);
}

std::optional<ExprId> foldSelect(ExprPool& pool, const Expr& e) {
  const ExprId condition = e.operands[0], then = e.operands[1], otherwise = e.operands[2];
  if (const int64_t* n = pool.findInteger(condition)) return *n != 0 ? then : otherwise;
  if (then == otherwise) return then;
  const Expr& c = pool[condition];
  if (c.op == Op::Not) return pool.select(c.operands[0], otherwise, then);
  if (e.dtype == DType::Bool) {
    const int64_t* t = pool.findInteger(then);
    const int64_t* o = pool.findInteger(otherwise);
    if (t && o) return *t != 0 ? condition : pool.unary(Op::Not, condition);
  }
  return std::nullopt;
}

}  // namespace

ExprId addFolded(ExprPool& pool, const Expr& e) {
  std::optional<ExprId> folded;
  if (e.op == Op::Select)
    folded = foldSelect(pool, e);
  else if (operandCount(e.op) == 2 && e.op != Op::CheckedIndex)
    folded = foldBinary(pool, e);
  else if (operandCount(e.op) == 1 && e.op != Op::Reduce)
    folded = foldUnary(pool, e);
  return folded ? *folded : pool.add(e);
}

}  // namespace graft::loops
