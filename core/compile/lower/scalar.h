// Scalar: one element while it is computed, so that a formula reads as it is written in mathematics.
//
//   Scalar y = x * sigmoid(x);
//
// Operands of one dtype. A number takes the dtype of the scalar beside it.
#pragma once

#include "core/compile/loops/program.h"

namespace graft::lower {

struct Scalar {
  loops::ExprPool* pool;
  loops::ExprId id;

  DType dtype() const { return (*pool)[id].dtype; }
  Scalar with(loops::ExprId other) const { return {pool, other}; }
  Scalar number(double v) const { return with(pool->number(dtype(), v)); }
  Scalar to(DType d) const { return with(pool->cast(id, d)); }
};

inline Scalar unary(loops::Op op, Scalar a) { return a.with(a.pool->unary(op, a.id)); }
inline Scalar binary(loops::Op op, Scalar a, Scalar b) { return a.with(a.pool->binary(op, a.id, b.id)); }

inline Scalar operator+(Scalar a, Scalar b) { return binary(loops::Op::Add, a, b); }
inline Scalar operator-(Scalar a, Scalar b) { return binary(loops::Op::Subtract, a, b); }
inline Scalar operator*(Scalar a, Scalar b) { return binary(loops::Op::Multiply, a, b); }
inline Scalar operator/(Scalar a, Scalar b) { return binary(loops::Op::Divide, a, b); }
inline Scalar operator+(Scalar a, double b) { return a + a.number(b); }
inline Scalar operator-(Scalar a, double b) { return a - a.number(b); }
inline Scalar operator*(Scalar a, double b) { return a * a.number(b); }
inline Scalar operator/(Scalar a, double b) { return a / a.number(b); }
inline Scalar operator+(double a, Scalar b) { return b.number(a) + b; }
inline Scalar operator-(double a, Scalar b) { return b.number(a) - b; }
inline Scalar operator*(double a, Scalar b) { return b.number(a) * b; }
inline Scalar operator/(double a, Scalar b) { return b.number(a) / b; }
inline Scalar operator-(Scalar a) { return unary(loops::Op::Negate, a); }
inline Scalar operator!(Scalar a) { return unary(loops::Op::Not, a); }

inline Scalar operator==(Scalar a, Scalar b) { return binary(loops::Op::Equal, a, b); }
inline Scalar operator!=(Scalar a, Scalar b) { return binary(loops::Op::NotEqual, a, b); }
inline Scalar operator<(Scalar a, Scalar b) { return binary(loops::Op::Less, a, b); }
inline Scalar operator<=(Scalar a, Scalar b) { return binary(loops::Op::LessEqual, a, b); }
inline Scalar operator>(Scalar a, Scalar b) { return b < a; }
inline Scalar operator>=(Scalar a, Scalar b) { return b <= a; }
inline Scalar operator==(Scalar a, double b) { return a == a.number(b); }
inline Scalar operator!=(Scalar a, double b) { return a != a.number(b); }
inline Scalar operator<(Scalar a, double b) { return a < a.number(b); }
inline Scalar operator<=(Scalar a, double b) { return a <= a.number(b); }
inline Scalar operator>(Scalar a, double b) { return a > a.number(b); }
inline Scalar operator>=(Scalar a, double b) { return a >= a.number(b); }
// Of bool and integers
inline Scalar operator&(Scalar a, Scalar b) { return binary(loops::Op::And, a, b); }
inline Scalar operator|(Scalar a, Scalar b) { return binary(loops::Op::Or, a, b); }
inline Scalar operator^(Scalar a, Scalar b) { return binary(loops::Op::Xor, a, b); }

inline Scalar where(Scalar condition, Scalar then, Scalar otherwise) {
  return then.with(then.pool->select(condition.id, then.id, otherwise.id));
}
inline Scalar minimum(Scalar a, Scalar b) { return binary(loops::Op::Minimum, a, b); }
inline Scalar maximum(Scalar a, Scalar b) { return binary(loops::Op::Maximum, a, b); }
inline Scalar minimum(Scalar a, double b) { return minimum(a, a.number(b)); }
inline Scalar maximum(Scalar a, double b) { return maximum(a, a.number(b)); }
inline Scalar abs(Scalar a) { return unary(loops::Op::Absolute, a); }
inline Scalar exp(Scalar a) { return unary(loops::Op::Exp, a); }
/// Of a <= 0 or NaN.
inline Scalar expNonPositive(Scalar a) { return unary(loops::Op::ExpNonPositive, a); }
inline Scalar exp2(Scalar a) { return unary(loops::Op::Exp2, a); }
inline Scalar expm1(Scalar a) { return unary(loops::Op::Expm1, a); }
inline Scalar log(Scalar a) { return unary(loops::Op::Log, a); }
inline Scalar log2(Scalar a) { return unary(loops::Op::Log2, a); }
inline Scalar log1p(Scalar a) { return unary(loops::Op::Log1p, a); }
inline Scalar sqrt(Scalar a) { return unary(loops::Op::Sqrt, a); }
inline Scalar sin(Scalar a) { return unary(loops::Op::Sin, a); }
inline Scalar tanh(Scalar a) { return unary(loops::Op::Tanh, a); }
inline Scalar erf(Scalar a) { return unary(loops::Op::Erf, a); }
inline Scalar sigmoid(Scalar a) { return unary(loops::Op::Sigmoid, a); }
inline Scalar floor(Scalar a) { return unary(loops::Op::Floor, a); }
inline Scalar truncate(Scalar a) { return unary(loops::Op::Truncate, a); }
inline Scalar power(Scalar a, Scalar b) { return binary(loops::Op::Power, a, b); }
/// log(sigmoid(x)), which does not overflow
inline Scalar logSigmoid(Scalar x) { return minimum(x, 0.0) - log1p(exp(-abs(x))); }

/// False for integers and bool.
Scalar isNan(Scalar);
Scalar isInfinite(Scalar);

}  // namespace graft::lower
