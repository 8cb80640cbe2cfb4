#include "core/compile/codegen/ir/ir_operations.h"

#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "core/compile/codegen/ir/ir_math.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::ReduceKind;

namespace {

const char* libraryName(Op op) {
  switch (op) {
    case Op::Exp:
    case Op::ExpNonPositive:
      return "exp";
    case Op::Exp2:
      return "exp2";
    case Op::Expm1:
      return "expm1";
    case Op::Log:
      return "log";
    case Op::Log2:
      return "log2";
    case Op::Log10:
      return "log10";
    case Op::Log1p:
      return "log1p";
    case Op::Sin:
      return "sin";
    case Op::Cos:
      return "cos";
    case Op::Tan:
      return "tan";
    case Op::Asin:
      return "asin";
    case Op::Acos:
      return "acos";
    case Op::Atan:
      return "atan";
    case Op::Sinh:
      return "sinh";
    case Op::Cosh:
      return "cosh";
    case Op::Tanh:
      return "tanh";
    case Op::Asinh:
      return "asinh";
    case Op::Acosh:
      return "acosh";
    case Op::Atanh:
      return "atanh";
    case Op::Erf:
      return "erf";
    case Op::Erfc:
      return "erfc";
    case Op::LogGamma:
      return "lgamma";
    case Op::Power:
      return "pow";
    case Op::Fmod:
      return "fmod";
    case Op::Atan2:
      return "atan2";
    case Op::Hypot:
      return "hypot";
    default:
      return nullptr;
  }
}

using MathFunction = Value (*)(IrBuilder&, const Value&);
MathFunction findMath(Op op) {
  switch (op) {
    case Op::Exp:
      return emitExp;
    case Op::ExpNonPositive:
      return emitExpNonPositive;
    case Op::Exp2:
      return emitExp2;
    case Op::Expm1:
      return emitExpm1;
    case Op::Log:
      return emitLog;
    case Op::Log2:
      return emitLog2;
    case Op::Log10:
      return emitLog10;
    case Op::Log1p:
      return emitLog1p;
    case Op::Sigmoid:
      return emitSigmoid;
    case Op::Erf:
      return emitErf;
    case Op::Sin:
      return emitSin;
    case Op::Cos:
      return emitCos;
    case Op::Tan:
      return emitTan;
    case Op::Asin:
      return emitAsin;
    case Op::Acos:
      return emitAcos;
    case Op::Atan:
      return emitAtan;
    case Op::Sinh:
      return emitSinh;
    case Op::Cosh:
      return emitCosh;
    case Op::Tanh:
      return emitTanh;
    case Op::Asinh:
      return emitAsinh;
    case Op::Acosh:
      return emitAcosh;
    case Op::Atanh:
      return emitAtanh;
    default:
      return nullptr;
  }
}

// Powers of integers: by squaring; of a negative exponent, what is left of 1 / x.
constexpr const char* kIntegerPower = R"(define internal i64 @graft.power(i64 %base, i64 %exponent) #0 {
entry:
  %negative = icmp slt i64 %exponent, 0
  br i1 %negative, label %inverse, label %check
inverse:
  %one = icmp eq i64 %base, 1
  %minus = icmp eq i64 %base, -1
  %odd = and i64 %exponent, 1
  %twice = shl i64 %odd, 1
  %sign = sub i64 1, %twice
  %small = select i1 %minus, i64 %sign, i64 0
  %inverted = select i1 %one, i64 1, i64 %small
  ret i64 %inverted
check:
  %none = icmp eq i64 %exponent, 0
  br i1 %none, label %end, label %loop
loop:
  %e = phi i64 [ %exponent, %check ], [ %e.next, %loop ]
  %b = phi i64 [ %base, %check ], [ %b.next, %loop ]
  %r = phi i64 [ 1, %check ], [ %r.next, %loop ]
  %bit = and i64 %e, 1
  %isSet = icmp ne i64 %bit, 0
  %factor = select i1 %isSet, i64 %b, i64 1
  %r.next = mul i64 %r, %factor
  %b.next = mul i64 %b, %b
  %e.next = lshr i64 %e, 1
  %again = icmp ne i64 %e.next, 0
  br i1 %again, label %loop, label %end
end:
  %result = phi i64 [ 1, %check ], [ %r.next, %loop ]
  ret i64 %result
}
)";

// The greatest common divisor of two absolute values, as the remainders leave it.
constexpr const char* kIntegerGcd = R"(define internal i64 @graft.gcd(i64 %x, i64 %y) #0 {
entry:
  %none = icmp eq i64 %x, 0
  br i1 %none, label %end, label %loop
loop:
  %a = phi i64 [ %x, %entry ], [ %rest, %loop ]
  %b = phi i64 [ %y, %entry ], [ %a, %loop ]
  %rest = srem i64 %b, %a
  %done = icmp eq i64 %rest, 0
  br i1 %done, label %end, label %loop
end:
  %result = phi i64 [ %y, %entry ], [ %a, %loop ]
  ret i64 %result
}
)";

/// What a constant says.
std::optional<double> constantOf(const Value& v) {
  if (!v.isConstant || !isFloatingPoint(v.dtype) || v.name.rfind("0x", 0) != 0) return std::nullopt;
  return std::bit_cast<double>(std::stoull(v.name, nullptr, 16));
}
std::optional<int64_t> integerOf(const Value& v) {
  if (!v.isConstant || isFloatingPoint(v.dtype) || v.dtype == DType::Bool) return std::nullopt;
  return std::stoll(v.name);
}

}  // namespace

Value IrOperations::libraryFunction(const char* name, std::span<const Value> operands) {
  const bool isFloat = operands[0].dtype == DType::Float32;
  return b_.callEach(std::string(name) + (isFloat ? "f" : ""), {operands.begin(), operands.end()});
}

Value IrOperations::extreme(bool isMaximum, const Value& a, const Value& b) {
  if (a.dtype == DType::Bool) return b_.binary(isMaximum ? "or" : "and", a, b);
  if (!isFloatingPoint(a.dtype)) {
    const char* less = isUnsigned(a.dtype) ? "icmp ult" : "icmp slt";
    return b_.select(b_.compare(less, a, b), isMaximum ? b : a, isMaximum ? a : b);
  }
  // The first operand where they are equal, as in PyTorch's relu(-0.0), and where one is NaN, which is right unless it
  // is the second.
  const Value chosen = b_.select(b_.compare(isMaximum ? "fcmp olt" : "fcmp ogt", a, b), b, a);
  if (const auto number = constantOf(b); number && !std::isnan(*number)) return chosen;
  return b_.select(b_.compare("fcmp uno", b, b), b, chosen);
}

Value IrOperations::combine(ReduceKind kind, const Value& sofar, const Value& next) {
  const bool isFloat = isFloatingPoint(sofar.dtype);
  switch (kind) {
    case ReduceKind::Sum:
      if (sofar.dtype == DType::Bool) return b_.binary("or", sofar, next);
      return b_.binary(isFloat ? "fadd contract" : "add", sofar, next);
    case ReduceKind::Product:
      if (sofar.dtype == DType::Bool) return b_.binary("and", sofar, next);
      return b_.binary(isFloat ? "fmul contract" : "mul", sofar, next);
    case ReduceKind::Minimum:
      return extreme(false, sofar, next);
    case ReduceKind::Maximum:
      return extreme(true, sofar, next);
    case ReduceKind::Any:
      return b_.binary("or", sofar, next);
    default:
      return b_.binary("and", sofar, next);
  }
}

Value IrOperations::identity(ReduceKind kind, DType dtype) {
  const bool isLeast = kind == ReduceKind::Maximum || kind == ReduceKind::ArgMaximum;
  switch (kind) {
    case ReduceKind::Sum:
      return b_.number(dtype, 0.0);
    case ReduceKind::Product:
      return b_.number(dtype, 1.0);
    case ReduceKind::Any:
      return b_.boolean(false);
    case ReduceKind::All:
      return b_.boolean(true);
    default:
      break;
  }
  if (dtype == DType::Bool) return b_.boolean(!isLeast);
  if (isFloatingPoint(dtype)) return b_.number(dtype, isLeast ? -INFINITY : INFINITY);
  if (dtype == DType::UInt8) return b_.integer(dtype, isLeast ? 0 : 255);
  const int bits = bitsOf(dtype);
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return b_.integer(dtype, isLeast ? -most - 1 : most);
}

Value IrOperations::isBetter(ReduceKind kind, const Value& a, const Value& b) {
  const bool isMaximum = kind == ReduceKind::ArgMaximum;
  if (!isFloatingPoint(a.dtype)) {
    const std::string sign = isUnsigned(a.dtype) ? "icmp u" : "icmp s";
    return b_.compare(sign + (isMaximum ? "gt" : "lt"), a, b);
  }
  const Value differs = b_.compare(isMaximum ? "fcmp ogt" : "fcmp olt", a, b);
  const Value onlyA = b_.binary("and", b_.compare("fcmp uno", a, a), b_.compare("fcmp ord", b, b));
  return b_.binary("or", differs, onlyA);
}

Value IrOperations::integerFunction(const char* name, const char* definition, const Value& x, const Value& y) {
  helpers_.insert(definition);
  const Value left = cast(x, DType::Int64), right = cast(y, DType::Int64);
  const int lanes = std::max(left.lanes, right.lanes), scope = std::max(left.scope, right.scope);
  const auto one = [&](int i) {
    const Value a = left.lanes == 1 ? left : b_.lane(left, i), b = right.lanes == 1 ? right : b_.lane(right, i);
    return b_.instruction(DType::Int64, 1, scope,
                          std::string("call i64 @") + name + "(" + b_.typed(a) + ", " + b_.typed(b) + ")");
  };
  Value result = one(0);
  if (lanes > 1) result = {"poison", DType::Int64, lanes, 0, true};
  for (int i = 0; lanes > 1 && i < lanes; ++i)
    result =
        b_.instruction(DType::Int64, lanes, scope,
                       "insertelement " + b_.typed(result) + ", " + b_.typed(one(i)) + ", i64 " + std::to_string(i));
  return cast(result, x.dtype);
}

Value IrOperations::absolute(const Value& x) {
  if (isUnsigned(x.dtype)) return x;
  const Value zero = b_.integer(x.dtype, 0);
  return b_.select(b_.compare("icmp slt", x, zero), b_.binary("sub", zero, x), x);
}

Value IrOperations::power(const Value& x, const Value& exponent) {
  if (!isFloatingPoint(x.dtype)) return integerFunction("graft.power", kIntegerPower, x, exponent);
  // The exponents for which PyTorch computes something simpler, and so does this
  const auto one = [&] { return b_.number(x.dtype, 1.0); };
  if (const std::optional<double> n = constantOf(exponent)) {
    if (*n == 0) return one();
    if (*n == 1) return x;
    if (*n == 0.5) return b_.intrinsic("llvm.sqrt", {x});
    if (*n == 2) return b_.binary("fmul", x, x);
    if (*n == 3) return b_.binary("fmul", b_.binary("fmul", x, x), x);
    if (*n == -0.5) return b_.binary("fdiv", one(), b_.intrinsic("llvm.sqrt", {x}));
    if (*n == -1) return b_.binary("fdiv", one(), x);
    if (*n == -2) return b_.binary("fdiv", one(), b_.binary("fmul", x, x));
  }
  if (x.dtype == DType::Float32) return emitPower(b_, x, exponent, constantOf(exponent));
  const Value operands[] = {x, exponent};
  return libraryFunction("pow", operands);
}

Value IrOperations::nextAfter(const Value& x, const Value& to) {
  const DType whole = x.dtype == DType::Float32 ? DType::Int32 : DType::Int64;
  const auto fromBits = [&](const Value& bits) { return b_.convert("bitcast", bits, x.dtype); };
  const Value zero = b_.number(x.dtype, 0.0);
  // The bits behind the sign count numbers, away from 0.
  const Value isInward = b_.binary("xor", b_.compare("fcmp olt", x, to), b_.compare("fcmp ogt", x, zero));
  const Value step = b_.select(isInward, b_.integer(whole, -1), b_.integer(whole, 1));
  const Value beside = fromBits(b_.binary("add", b_.convert("bitcast", x, whole), step));
  const Value least = b_.intrinsic("llvm.copysign", {fromBits(b_.integer(whole, 1)), to});
  const Value moved = b_.select(b_.compare("fcmp oeq", x, zero), least, beside);
  const Value known = b_.select(b_.compare("fcmp oeq", x, to), to, moved);
  return b_.select(b_.compare("fcmp uno", x, to), b_.binary("fadd", x, to), known);
}

Value IrOperations::floating(const Expr& e, std::span<const Value> v) {
  const DType dtype = v[0].dtype;
  const auto number = [&](double x) { return b_.number(dtype, x); };
  switch (e.op) {
    case Op::Negate:
      return b_.unary("fneg", v[0]);
    case Op::Absolute:
      return b_.intrinsic("llvm.fabs", {v[0]});
    case Op::Sign: {
      const Value negative = b_.select(b_.compare("fcmp olt", v[0], number(0)), number(-1), number(0));
      return b_.select(b_.compare("fcmp ogt", v[0], number(0)), number(1), negative);
    }
    case Op::Floor:
      return b_.intrinsic("llvm.floor", {v[0]});
    case Op::Ceil:
      return b_.intrinsic("llvm.ceil", {v[0]});
    case Op::Round:
      return b_.intrinsic("llvm.rint", {v[0]});
    case Op::Truncate:
      return b_.intrinsic("llvm.trunc", {v[0]});
    case Op::Sqrt:
      return b_.intrinsic("llvm.sqrt", {v[0]});
    case Op::Sigmoid:
      return b_.binary("fdiv", number(1),
                       b_.binary("fadd", libraryFunction("exp", std::vector{b_.unary("fneg", v[0])}), number(1)));
    case Op::Add:
      return b_.binary("fadd contract", v[0], v[1]);
    case Op::Subtract:
      return b_.binary("fsub contract", v[0], v[1]);
    case Op::Multiply:
      return b_.binary("fmul contract", v[0], v[1]);
    case Op::Divide:
      return b_.binary("fdiv", v[0], v[1]);
    case Op::TruncateDivide:
      return b_.intrinsic("llvm.trunc", {b_.binary("fdiv", v[0], v[1])});
    case Op::FloorDivide: {
      // Python's rule, as PyTorch has it: exact where the quotient is whole
      const Value rest = libraryFunction("fmod", v);
      Value quotient = b_.binary("fdiv", b_.binary("fsub", v[0], rest), v[1]);
      const Value differs =
          b_.binary("xor", b_.compare("fcmp olt", v[1], number(0)), b_.compare("fcmp olt", rest, number(0)));
      const Value corrects = b_.binary("and", b_.compare("fcmp une", rest, number(0)), differs);
      quotient = b_.select(corrects, b_.binary("fsub", quotient, number(1)), quotient);
      const Value floor = b_.intrinsic("llvm.floor", {quotient});
      const Value above = b_.compare("fcmp ogt", b_.binary("fsub", quotient, floor), number(0.5));
      const Value rounded = b_.select(above, b_.binary("fadd", floor, number(1)), floor);
      const Value plain = b_.binary("fdiv", v[0], v[1]);
      const Value zero = b_.intrinsic("llvm.copysign", {number(0), plain});
      const Value result = b_.select(b_.compare("fcmp une", quotient, number(0)), rounded, zero);
      return b_.select(b_.compare("fcmp oeq", v[1], number(0)), plain, result);
    }
    case Op::Remainder: {
      const Value rest = libraryFunction("fmod", v);
      const Value differs =
          b_.binary("xor", b_.compare("fcmp olt", v[1], number(0)), b_.compare("fcmp olt", rest, number(0)));
      const Value corrects = b_.binary("and", b_.compare("fcmp une", rest, number(0)), differs);
      return b_.select(corrects, b_.binary("fadd", rest, v[1]), rest);
    }
    case Op::Power:
      return power(v[0], v[1]);
    case Op::Minimum:
      return extreme(false, v[0], v[1]);
    case Op::Maximum:
      return extreme(true, v[0], v[1]);
    case Op::CopySign:
      return b_.intrinsic("llvm.copysign", {v[0], v[1]});
    case Op::NextAfter:
      return nextAfter(v[0], v[1]);
    case Op::Equal:
      return b_.compare("fcmp oeq", v[0], v[1]);
    case Op::NotEqual:
      return b_.compare("fcmp une", v[0], v[1]);
    case Op::Less:
      return b_.compare("fcmp olt", v[0], v[1]);
    case Op::LessEqual:
      return b_.compare("fcmp ole", v[0], v[1]);
    default:
      return libraryFunction(libraryName(e.op), v);
  }
}

Value IrOperations::divideInteger(Op op, const Value& a, const Value& b, const Value& active) {
  const DType dtype = a.dtype;
  const auto number = [&](int64_t x) { return b_.integer(dtype, x); };
  const std::optional<int64_t> known = integerOf(b);
  const bool wantsRest = op == Op::Remainder || op == Op::Fmod;
  if (known && *known > 0 && (*known & (*known - 1)) == 0 && (op == Op::FloorDivide || op == Op::Remainder)) {
    if (wantsRest) return b_.binary("and", a, number(*known - 1));
    return b_.binary(isUnsigned(dtype) ? "lshr" : "ashr", a, number(__builtin_ctzll(static_cast<uint64_t>(*known))));
  }
  Value divisor = b;
  // In lanes that do not count, and where a loop around it runs no iteration, it may be 0.
  if (!known) divisor = b_.select(b_.compare("icmp eq", divisor, number(0)), number(1), divisor);
  if (isUnsigned(dtype)) return b_.binary(wantsRest ? "urem" : "udiv", a, divisor);
  // The processor stops at the least number divided by -1; elsewhere that is a negation.
  const bool mayBeMinus1 = !known || *known == -1;
  const Value isMinus1 = mayBeMinus1 ? b_.compare("icmp eq", divisor, number(-1)) : b_.boolean(false);
  if (mayBeMinus1) divisor = b_.select(isMinus1, number(1), divisor);
  const Value rest = b_.binary("srem", a, divisor);
  const Value quotient = b_.binary("sdiv", a, divisor);
  if (op == Op::Fmod) return rest;
  if (op == Op::TruncateDivide) return b_.select(isMinus1, b_.binary("sub", number(0), a), quotient);
  // Where the signs differ and something is left, one less
  const Value differs = b_.compare("icmp slt", b_.binary("xor", rest, divisor), number(0));
  const Value corrects = b_.binary("and", b_.compare("icmp ne", rest, number(0)), differs);
  if (op == Op::Remainder) return b_.select(corrects, b_.binary("add", rest, divisor), rest);
  const Value floor = b_.select(corrects, b_.binary("sub", quotient, number(1)), quotient);
  return b_.select(isMinus1, b_.binary("sub", number(0), a), floor);
}

Value IrOperations::integral(const Expr& e, std::span<const Value> v, const Value& active) {
  const DType dtype = v[0].dtype;
  const auto number = [&](int64_t x) { return b_.integer(dtype, x); };
  const std::string sign = isUnsigned(dtype) ? "icmp u" : "icmp s";
  switch (e.op) {
    case Op::Negate:
      return b_.binary("sub", number(0), v[0]);
    case Op::Absolute:
      return absolute(v[0]);
    case Op::Not:
      return b_.binary("xor", v[0], dtype == DType::Bool ? b_.boolean(true) : number(-1));
    case Op::Sign: {
      if (dtype == DType::Bool) return v[0];
      const Value positive = b_.select(b_.compare("icmp ne", v[0], number(0)), number(1), number(0));
      return isUnsigned(dtype) ? positive : b_.select(b_.compare("icmp slt", v[0], number(0)), number(-1), positive);
    }
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Truncate:
      return v[0];
    case Op::Add:
      return b_.binary(dtype == DType::Bool ? "or" : "add", v[0], v[1]);
    case Op::Subtract:
      return b_.binary(dtype == DType::Bool ? "xor" : "sub", v[0], v[1]);
    case Op::Multiply:
      return b_.binary(dtype == DType::Bool ? "and" : "mul", v[0], v[1]);
    case Op::FloorDivide:
    case Op::TruncateDivide:
    case Op::Remainder:
    case Op::Fmod:
      return divideInteger(e.op, v[0], v[1], active);
    case Op::Power:
      return power(v[0], v[1]);
    case Op::Gcd:
      return integerFunction("graft.gcd", kIntegerGcd, absolute(v[0]), absolute(v[1]));
    case Op::Minimum:
      return extreme(false, v[0], v[1]);
    case Op::Maximum:
      return extreme(true, v[0], v[1]);
    case Op::And:
      return b_.binary("and", v[0], v[1]);
    case Op::Or:
      return b_.binary("or", v[0], v[1]);
    case Op::Xor:
      return b_.binary("xor", v[0], v[1]);
    case Op::ShiftLeft:
    case Op::ShiftRight: {
      // Beyond the number's bits nothing is left of it but its sign
      const int bits = bitsOf(dtype);
      const Value isInside = b_.compare("icmp ult", v[1], number(bits));
      const Value places = b_.binary("and", v[1], number(bits - 1));
      if (e.op == Op::ShiftLeft || isUnsigned(dtype))
        return b_.select(isInside, b_.binary(e.op == Op::ShiftLeft ? "shl" : "lshr", v[0], places), number(0));
      return b_.binary("ashr", v[0], b_.select(isInside, places, number(bits - 1)));
    }
    case Op::Equal:
      return b_.compare("icmp eq", v[0], v[1]);
    case Op::NotEqual:
      return b_.compare("icmp ne", v[0], v[1]);
    case Op::Less:
      return b_.compare(sign + "lt", v[0], v[1]);
    case Op::LessEqual:
      return b_.compare(sign + "le", v[0], v[1]);
    default: {
      // A function of numbers, of which the program verifies that they are floating
      return v[0];
    }
  }
}

Value IrOperations::operation(const Expr& e, std::span<const Value> operands, const Value& active) {
  if (e.op == Op::Cast) return cast(operands[0], e.dtype);
  if (e.op == Op::Select) return b_.select(operands[0], operands[1], operands[2]);
  if (e.op == Op::Uniform) return emitUniform(b_, operands);
  if (!isFloatingPoint(operands[0].dtype)) return integral(e, operands, active);
  if (operands[0].dtype == DType::Float32)
    if (const MathFunction function = findMath(e.op)) return function(b_, operands[0]);
  return floating(e, operands);
}

}  // namespace graft::codegen
