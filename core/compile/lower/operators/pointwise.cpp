// Arithmetic, comparisons, logic and bits, element by element.

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double transcendental = 12;  ///< operations that an exp or a sine is worth

using Values = std::span<const Scalar>;
using OneFormula = Scalar (*)(Scalar);
using TwoFormula = Scalar (*)(Scalar, Scalar);

/// The operands in the result's dtype, which is the promoted one.
Entry unaryOf(std::string_view name, double cost, OneFormula f) {
  return {"aten." + std::string(name) + ".default", Kind::Pointwise, [cost, f](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor("self")}, d, d, cost, [f](Values v) { return f(v[0]); }));
          }};
}
Entry unaryOf(std::string_view name, double cost, Op op) {
  return {"aten." + std::string(name) + ".default", Kind::Pointwise, [cost, op](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor("self")}, d, d, cost, [op](Values v) { return unary(op, v[0]); }));
          }};
}
/// Rounding: integers stay as they are.
Entry roundingOf(std::string_view name, Op op) {
  return {"aten." + std::string(name) + ".default", Kind::Pointwise, [op](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor("self")}, d, d, 1,
                                 [op, d](Values v) { return isFloatingPoint(d) ? unary(op, v[0]) : v[0]; }));
          }};
}
/// A question about one element, asked in the operand's own dtype.
Entry questionOf(std::string_view name, OneFormula f) {
  return {"aten." + std::string(name) + ".default", Kind::Pointwise, [f](Call& c) {
            const TensorId x = c.tensor("self");
            c.result(c.pointwise({x}, c.type(x), DType::Bool, 1, [f](Values v) { return f(v[0]); }));
          }};
}

Entry binaryOf(std::string name, double cost, TwoFormula f) {
  return {"aten." + std::move(name), Kind::Pointwise, [cost, f](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, cost,
                                 [f](Values v) { return f(v[0], v[1]); }));
          }};
}
Entry binaryOf(std::string name, double cost, Op op) {
  return {"aten." + std::move(name), Kind::Pointwise, [cost, op](Call& c) {
            const DType d = c.resultType();
            c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, cost,
                                 [op](Values v) { return binary(op, v[0], v[1]); }));
          }};
}
/// A comparison in the operands' promoted dtype.
Entry comparisonOf(std::string name, TwoFormula f) {
  return {"aten." + std::move(name), Kind::Pointwise, [f](Call& c) {
            const std::array operands{c.tensor("self"), c.tensor("other")};
            c.result(c.pointwise({operands[0], operands[1]}, promoted(c.l, operands), DType::Bool, 1,
                                 [f](Values v) { return f(v[0], v[1]); }));
          }};
}
Entry logicOf(std::string name, Op op) {
  return {"aten." + std::move(name), Kind::Pointwise, [op](Call& c) {
            c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, DType::Bool, DType::Bool, 1,
                                 [op](Values v) { return binary(op, v[0], v[1]); }));
          }};
}

Scalar checked(Scalar divisor) {
  if (isFloatingPoint(divisor.dtype())) return divisor;
  const int64_t* n = divisor.pool->findInteger(divisor.id);
  return n && *n != 0 ? divisor : divisor.with(divisor.pool->checkedDivisor(divisor.id));
}

/// Rounds or takes a remainder.
Entry divisionOf(std::string name, Op op) {
  return {"aten." + std::move(name), Kind::Pointwise, [op](Call& c) {
            const DType d = c.resultType();
            if (d == DType::Bool) c.refuse("the result is bool");
            c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, 6,
                                 [op](Values v) { return binary(op, v[0], checked(v[1])); }));
          }};
}

void lowerDivide(Call& c) {
  const DType d = c.resultType();
  const bool hasMode = c.has("rounding_mode");
  const std::string_view mode = hasMode ? c.text("rounding_mode") : "";
  if (!hasMode) {
    c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, 4, [](Values v) { return v[0] / v[1]; }));
    return;
  }
  if (mode != "floor" && mode != "trunc") c.refuse("rounding_mode", "is neither floor nor trunc");
  if (d == DType::Bool) c.refuse("the result is bool");
  const Op op = mode == "floor" ? Op::FloorDivide : Op::TruncateDivide;
  c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, 6,
                       [op](Values v) { return binary(op, v[0], checked(v[1])); }));
}

/// self + alpha * other, or self - alpha * other.
void lowerSum(Call& c, bool subtracts, bool reversed) {
  const DType d = c.resultType();
  const double alpha = c.has("alpha") ? c.number("alpha") : 1;
  if (d == DType::Bool && (alpha != 1 || subtracts)) c.refuse("the result is bool");
  if (!isFloatingPoint(d) && alpha != std::floor(alpha)) c.refuse("alpha", "is no whole number");
  c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, alpha == 1 ? 1 : 2,
                       [alpha, subtracts, reversed](Values v) {
                         const Scalar a = reversed ? v[1] : v[0];
                         const Scalar b = reversed ? v[0] : v[1];
                         if (a.dtype() == DType::Bool) return a | b;
                         const Scalar scaled = alpha == 1 ? b : b * alpha;
                         return subtracts ? a - scaled : a + scaled;
                       }));
}

void lowerPower(Call& c) {
  const DType d = c.resultType();
  const TensorId base = c.tensor("self"), exponent = c.tensor("exponent");
  if (d == DType::Bool) c.refuse("the result is bool");
  const Argument* a = c.node.findArgument("exponent");
  const std::optional<double> n = a->number();
  if (n && isFloatingPoint(d)) {
    const double e = *n;
    const auto simple = [e](Scalar x) -> std::optional<Scalar> {
      if (e == 1) return x;
      if (e == 2) return x * x;
      if (e == 3) return x * x * x;
      if (e == 0.5) return sqrt(x);
      if (e == -0.5) return 1.0 / sqrt(x);
      if (e == -1) return 1.0 / x;
      if (e == -2) return 1.0 / (x * x);
      return std::nullopt;
    };
    const bool isCheap = e == 1 || e == 2 || e == 3;
    const bool isSimple = isCheap || e == 0.5 || e == -0.5 || e == -1 || e == -2;
    c.result(c.pointwise({base}, d, d,
                         isCheap    ? 2
                         : isSimple ? 5
                                    : 2 * transcendental,
                         [simple, e](Values v) {
                           const auto s = simple(v[0]);
                           return s ? *s : power(v[0], v[0].number(e));
                         }));
    return;
  }
  if (n && *n < 0) c.refuse("exponent", "is negative, of integers");
  c.result(c.pointwise({base, exponent}, d, d, 2 * transcendental, [](Values v) { return power(v[0], v[1]); }));
}

/// The bounds of `clamp`, each a tensor, a number or None. NaN stays, in bounds too.
void lowerClamp(Call& c, std::string_view least, std::string_view greatest) {
  const DType d = c.resultType();
  if (d == DType::Bool) c.refuse("the result is bool");
  std::vector<TensorId> operands{c.tensor("self")};
  const bool hasLeast = !least.empty() && c.has(least), hasGreatest = !greatest.empty() && c.has(greatest);
  if (hasLeast) operands.push_back(c.tensor(least));
  if (hasGreatest) operands.push_back(c.tensor(greatest));
  c.result(c.pointwise(operands, c.resultSizes(), d, d, 2, [hasLeast, hasGreatest](Values v) {
    Scalar x = hasLeast ? maximum(v[0], v[1]) : v[0];
    return hasGreatest ? minimum(x, v[hasLeast ? 2 : 1]) : x;
  }));
}

void lowerWhere(Call& c) {
  const TensorId condition = c.tensor("condition");
  const DType d = c.resultType();
  Lowering& l = c.l;
  const TensorId yes = c.tensor("self"), no = c.tensor("other");
  const DType was = c.type(condition);
  // The condition has a dtype of its own.
  const TensorId chosen = l.define(
      "condition", DType::Bool, c.sizes(condition), 0, std::span(&condition, 1),
      [&l, condition, was](const Index& i) { return l.convert(l.scalarAt(condition, i), was, DType::Bool).id; });
  const Sizes sizes = c.resultSizes();
  const std::array operands{chosen, yes, no};
  (void)c.pointwise(operands, sizes, d, d, 1, [](Values v) { return v[1]; });  // refuses what does not broadcast
  c.result(l.define(c.name(), d, sizes, 1, operands, [&l, chosen, yes, no, d, sizes](const Index& i) {
    const auto branch = [&](TensorId t) { return l.convert(l.scalar(l.broadcastAt(t, i, sizes)), l[t].dtype, d); };
    return where(l.scalar(l.broadcastAt(chosen, i, sizes)), branch(yes), branch(no)).id;
  }));
}

void lowerMaskedFill(Call& c) {
  const DType d = c.resultType();
  const TensorId self = c.tensor("self"), mask = c.tensor("mask"), value = c.tensor("value");
  if (c.type(mask) != DType::Bool) c.refuse("mask", "is not bool");
  Lowering& l = c.l;
  const Sizes sizes = c.resultSizes();
  const std::array operands{self, mask, value};
  (void)c.pointwise(operands, sizes, d, d, 1, [](Values v) { return v[0]; });  // refuses what does not broadcast
  c.result(l.define(c.name(), d, sizes, 1, operands, [&l, self, mask, value, d, sizes](const Index& i) {
    const auto branch = [&](TensorId t) { return l.convert(l.scalar(l.broadcastAt(t, i, sizes)), l[t].dtype, d); };
    return where(l.scalar(l.broadcastAt(mask, i, sizes)), branch(value), branch(self)).id;
  }));
}

void lowerLerp(Call& c) {
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("the result is no floating number");
  if (const auto w = c.argument("weight").number()) {
    c.result(c.pointwise({c.tensor("self"), c.tensor("end")}, d, d, 3, [w = *w](Values v) {
      const Scalar a = v[0], b = v[1];
      return std::abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (1 - w);
    }));
    return;
  }
  c.result(c.pointwise({c.tensor("self"), c.tensor("end"), c.tensor("weight")}, d, d, 5, [](Values v) {
    const Scalar a = v[0], b = v[1], w = v[2];
    return where(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1.0 - w));
  }));
}

void lowerAddcmul(Call& c, bool divides) {
  const DType d = c.resultType();
  const double value = c.number("value");
  if (d == DType::Bool || (divides && !isFloatingPoint(d))) c.refuse("the result is no floating number");
  if (!isFloatingPoint(d) && value != std::floor(value)) c.refuse("value", "is no whole number");
  c.result(c.pointwise({c.tensor("self"), c.tensor("tensor1"), c.tensor("tensor2")}, d, d, 3, [=](Values v) {
    const Scalar scaled = value == 1 ? v[1] : v[1] * value;
    return v[0] + (divides ? scaled / v[2] : scaled * v[2]);
  }));
}

void lowerNanToNum(Call& c) {
  const DType d = c.resultType();
  const TensorId x = c.tensor("self");
  if (!isFloatingPoint(d)) {
    c.result(c.pointwise({x}, d, d, 0, [](Values v) { return v[0]; }));
    return;
  }
  const double greatest = d == DType::Float64    ? std::numeric_limits<double>::max()
                          : d == DType::Float32  ? std::numeric_limits<float>::max()
                          : d == DType::BFloat16 ? 3.3895313892515355e38
                                                 : 65504.0;
  const double nan = c.has("nan") ? c.number("nan") : 0;
  const double positive = c.has("posinf") ? c.number("posinf") : greatest;
  const double negative = c.has("neginf") ? c.number("neginf") : -greatest;
  c.result(c.pointwise({x}, d, d, 6, [=](Values v) {
    const Scalar r = v[0];
    return where(r != r, r.number(nan),
                 where(r == infinity, r.number(positive), where(r == -infinity, r.number(negative), r)));
  }));
}

void lowerIsClose(Call& c) {
  const std::array operands{c.tensor("self"), c.tensor("other")};
  const DType common = promoted(c.l, operands);
  if (!isFloatingPoint(common)) c.refuse("its operands are no floating numbers");
  const double rtol = c.number("rtol"), atol = c.number("atol");
  const bool equalNan = c.flag("equal_nan");
  c.result(c.pointwise({operands[0], operands[1]}, common, DType::Bool, 8, [=](Values v) {
    const Scalar a = v[0], b = v[1];
    const Scalar off = abs(a - b);
    Scalar close = (a == b) | ((off < infinity) & (off <= atol + abs(b * rtol)));
    return equalNan ? close | ((a != a) & (b != b)) : close;
  }));
}

void lowerRoundDecimals(Call& c) {
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("self", "has no floating numbers");
  const int64_t decimals = c.integer("decimals");
  const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  c.result(c.pointwise({c.tensor("self")}, d, d, 6, [decimals, ten](Values v) {
    const Scalar x = v[0];
    if (decimals == 0) return unary(Op::Round, x);
    return decimals > 0 ? unary(Op::Round, x * ten) / ten : unary(Op::Round, x / ten) * ten;
  }));
}

void lowerLogit(Call& c) {
  const DType d = c.resultType();
  const bool clamps = c.has("eps") && c.number("eps") >= 0;
  const double eps = clamps ? c.number("eps") : 0;
  c.result(c.pointwise({c.tensor("self")}, d, d, transcendental + 6, [=](Values v) {
    const Scalar x =
        clamps ? where(v[0] < eps, v[0].number(eps), where(v[0] > 1 - eps, v[0].number(1 - eps), v[0])) : v[0];
    return log(x / (1.0 - x));
  }));
}

Entry floatBinaryOf(std::string name, double cost, TwoFormula f) {
  return {"aten." + std::move(name), Kind::Pointwise, [cost, f](Call& c) {
            const DType d = c.resultType();
            if (!isFloatingPoint(d)) c.refuse("the result is no floating number");
            c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, cost,
                                 [f](Values v) { return f(v[0], v[1]); }));
          }};
}

void lowerLcm(Call& c) {
  const DType d = c.resultType();
  // As C++ computes with small integers, and so PyTorch: in 32 bits, the absolute value of the whole product.
  const DType compute = dtypeSize(d) < 4 ? DType::Int32 : d;
  c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, compute, d, 50, [d](Values v) {
    const Scalar divisor = binary(Op::Gcd, v[0], v[1]);
    const Scalar isNone = divisor == 0.0;  // of 0 and 0
    const Scalar quotient = binary(Op::TruncateDivide, v[0], checked(where(isNone, v[0].number(1), divisor)));
    return where(isNone, v[0].number(0), abs(quotient * v[1])).to(d);
  }));
}

Scalar xTimes(Scalar x, Scalar y, Scalar logarithm) {
  return where(isNan(y), y, where(x == 0.0, x.number(0), x * logarithm));
}

}  // namespace

std::vector<Entry> pointwiseOperators() {
  const auto entry = [](std::string name, std::function<void(Call&)> build) {
    return Entry{"aten." + std::move(name), Kind::Pointwise, std::move(build)};
  };
  std::vector<Entry> out{
      unaryOf("acos", transcendental, Op::Acos),
      unaryOf("acosh", transcendental, Op::Acosh),
      unaryOf("asin", transcendental, Op::Asin),
      unaryOf("asinh", transcendental, Op::Asinh),
      unaryOf("atan", transcendental, Op::Atan),
      unaryOf("atanh", transcendental, Op::Atanh),
      unaryOf("cos", transcendental, Op::Cos),
      unaryOf("cosh", transcendental, Op::Cosh),
      unaryOf("erf", transcendental, Op::Erf),
      unaryOf("erfc", transcendental, Op::Erfc),
      unaryOf("exp", transcendental, Op::Exp),
      unaryOf("exp2", transcendental, Op::Exp2),
      unaryOf("expm1", transcendental, Op::Expm1),
      unaryOf("log", transcendental, Op::Log),
      unaryOf("log10", transcendental, Op::Log10),
      unaryOf("log1p", transcendental, Op::Log1p),
      unaryOf("log2", transcendental, Op::Log2),
      unaryOf("sigmoid", transcendental, Op::Sigmoid),
      unaryOf("sin", transcendental, Op::Sin),
      unaryOf("sinh", transcendental, Op::Sinh),
      unaryOf("sqrt", 4, Op::Sqrt),
      unaryOf("tan", transcendental, Op::Tan),
      unaryOf("tanh", transcendental, Op::Tanh),
      unaryOf("rsqrt", 8, [](Scalar x) { return 1.0 / sqrt(x); }),
      unaryOf("reciprocal", 4, [](Scalar x) { return 1.0 / x; }),
      unaryOf("deg2rad", 1, [](Scalar x) { return x * (std::numbers::pi / 180); }),
      unaryOf("rad2deg", 1, [](Scalar x) { return x * (180 / std::numbers::pi); }),
      unaryOf("sinc", transcendental + 4,
              [](Scalar x) {
                const Scalar y = x * std::numbers::pi;
                return where(x == 0.0, x.number(1), sin(y) / y);
              }),
      unaryOf("abs", 1, [](Scalar x) { return x.dtype() == DType::Bool ? x : abs(x); }),
      unaryOf("neg", 1, [](Scalar x) { return -x; }),
      unaryOf("sign", 1, [](Scalar x) { return x.dtype() == DType::Bool ? x : unary(Op::Sign, x); }),
      unaryOf("sgn", 1, [](Scalar x) { return x.dtype() == DType::Bool ? x : unary(Op::Sign, x); }),
      unaryOf("positive", 0, [](Scalar x) { return x; }),
      entry("square.default",
            [](Call& c) {
              const DType d = c.resultType();
              if (d == DType::Bool) c.refuse("self", "is bool");
              c.result(c.pointwise({c.tensor("self")}, d, d, 1, [](Values v) { return v[0] * v[0]; }));
            }),
      unaryOf("bitwise_not", 1, [](Scalar x) { return !x; }),
      roundingOf("floor", Op::Floor),
      roundingOf("ceil", Op::Ceil),
      roundingOf("round", Op::Round),
      roundingOf("trunc", Op::Truncate),
      questionOf("isnan", [](Scalar x) { return isNan(x); }),
      questionOf("isinf", [](Scalar x) { return isInfinite(x); }),
      questionOf(
          "isfinite",
          [](Scalar x) { return isFloatingPoint(x.dtype()) ? abs(x) < infinity : x.with(x.pool->boolean(true)); }),
      questionOf("isposinf",
                 [](Scalar x) { return isFloatingPoint(x.dtype()) ? x == infinity : x.with(x.pool->boolean(false)); }),
      questionOf("isneginf",
                 [](Scalar x) { return isFloatingPoint(x.dtype()) ? x == -infinity : x.with(x.pool->boolean(false)); }),
      questionOf("isreal", [](Scalar x) { return x.with(x.pool->boolean(true)); }),
      questionOf("logical_not", [](Scalar x) { return !x.to(DType::Bool); }),
      questionOf("signbit",
                 [](Scalar x) {
                   if (isFloatingPoint(x.dtype())) return binary(Op::CopySign, x.number(1), x) < 0.0;
                   return x.dtype() == DType::Bool ? x.with(x.pool->boolean(false)) : x < 0.0;
                 }),
      entry("frac.default",
            [](Call& c) {
              const DType d = c.resultType();
              c.result(c.pointwise({c.tensor("self")}, d, d, 2, [](Values v) { return v[0] - truncate(v[0]); }));
            }),
      entry("add.Tensor", [](Call& c) { lowerSum(c, false, false); }),
      entry("sub.Tensor", [](Call& c) { lowerSum(c, true, false); }),
      entry("rsub.Tensor", [](Call& c) { lowerSum(c, true, true); }),
      entry("rsub.Scalar", [](Call& c) { lowerSum(c, true, true); }),
      binaryOf("mul.Tensor", 1, [](Scalar a, Scalar b) { return a.dtype() == DType::Bool ? a & b : a * b; }),
      entry("div.Tensor", lowerDivide),
      entry("div.Tensor_mode", lowerDivide),
      divisionOf("floor_divide.default", Op::FloorDivide),
      divisionOf("remainder.Tensor", Op::Remainder),
      divisionOf("remainder.Scalar_Tensor", Op::Remainder),
      divisionOf("fmod.Tensor", Op::Fmod),
      entry("pow.Tensor_Tensor", lowerPower),
      entry("float_power.Scalar", lowerPower),
      entry("float_power.Tensor_Scalar", lowerPower),
      entry("float_power.Tensor_Tensor", lowerPower),
      binaryOf("maximum.default", 1,
               [](Scalar a, Scalar b) { return a.dtype() == DType::Bool ? a | b : maximum(a, b); }),
      binaryOf("max.other", 1, [](Scalar a, Scalar b) { return a.dtype() == DType::Bool ? a | b : maximum(a, b); }),
      binaryOf("minimum.default", 1,
               [](Scalar a, Scalar b) { return a.dtype() == DType::Bool ? a & b : minimum(a, b); }),
      binaryOf("min.other", 1, [](Scalar a, Scalar b) { return a.dtype() == DType::Bool ? a & b : minimum(a, b); }),
      floatBinaryOf("fmax.default", 3,
                    [](Scalar a, Scalar b) { return where(isNan(a), b, where(isNan(b), a, maximum(a, b))); }),
      floatBinaryOf("fmin.default", 3,
                    [](Scalar a, Scalar b) { return where(isNan(a), b, where(isNan(b), a, minimum(a, b))); }),
      floatBinaryOf("atan2.default", 2 * transcendental, [](Scalar a, Scalar b) { return binary(Op::Atan2, a, b); }),
      floatBinaryOf("hypot.default", 8, [](Scalar a, Scalar b) { return binary(Op::Hypot, a, b); }),
      entry("nextafter.default",
            [](Call& c) {
              const DType d = c.resultType();
              // Neighbours of halves are not those of the f32 that they are computed in.
              if (isHalf(d)) c.refuse("the result is " + std::string(dtypeShort(d)));
              c.result(c.pointwise({c.tensor("self"), c.tensor("other")}, d, d, 8,
                                   [](Values v) { return binary(Op::NextAfter, v[0], v[1]); }));
            }),
      binaryOf("gcd.default", 40, Op::Gcd),
      entry("lcm.default", lowerLcm),
      floatBinaryOf("copysign.Tensor", 1, [](Scalar a, Scalar b) { return binary(Op::CopySign, a, b); }),
      floatBinaryOf("copysign.Scalar", 1, [](Scalar a, Scalar b) { return binary(Op::CopySign, a, b); }),
      floatBinaryOf("xlogy.Tensor", transcendental, [](Scalar a, Scalar b) { return xTimes(a, b, log(b)); }),
      floatBinaryOf("xlogy.Scalar_Self", transcendental, [](Scalar a, Scalar b) { return xTimes(a, b, log(b)); }),
      floatBinaryOf("xlogy.Scalar_Other", transcendental, [](Scalar a, Scalar b) { return xTimes(a, b, log(b)); }),
      floatBinaryOf("special_xlog1py.default", transcendental,
                    [](Scalar a, Scalar b) { return xTimes(a, b, log1p(b)); }),
      floatBinaryOf("logaddexp.default", 2 * transcendental,
                    [](Scalar a, Scalar b) {
                      return where(isInfinite(a) & (a == b), a, maximum(a, b) + log1p(exp(-abs(a - b))));
                    }),
      floatBinaryOf("logaddexp2.default", 2 * transcendental,
                    [](Scalar a, Scalar b) {
                      const Scalar tail = log1p(exp2(-abs(a - b))) * (1 / std::numbers::ln2);
                      return where(isInfinite(a) & (a == b), a, maximum(a, b) + tail);
                    }),
      binaryOf("bitwise_and.Tensor", 1, Op::And),
      binaryOf("bitwise_or.Tensor", 1, Op::Or),
      binaryOf("bitwise_xor.Tensor", 1, Op::Xor),
      binaryOf("bitwise_left_shift.Tensor", 1, Op::ShiftLeft),
      binaryOf("bitwise_right_shift.Tensor", 1, Op::ShiftRight),
      comparisonOf("eq.Tensor", [](Scalar a, Scalar b) { return a == b; }),
      comparisonOf("ne.Tensor", [](Scalar a, Scalar b) { return a != b; }),
      comparisonOf("lt.Tensor", [](Scalar a, Scalar b) { return a < b; }),
      comparisonOf("le.Tensor", [](Scalar a, Scalar b) { return a <= b; }),
      comparisonOf("gt.Tensor", [](Scalar a, Scalar b) { return a > b; }),
      comparisonOf("ge.Tensor", [](Scalar a, Scalar b) { return a >= b; }),
      entry("outer.default",
            [](Call& c) {
              const TensorId a = c.tensor("self"), b = c.tensor("vec2");
              const DType d = c.resultType();
              if (c.rank(a) != 1 || c.rank(b) != 1 || d == DType::Bool) c.refuse("self", "is no vector of numbers");
              c.result(c.pointwise({c.reshaped(a, {c.sizes(a)[0], c.l.integer(1)}), b}, d, d, 1,
                                   [](Values v) { return v[0] * v[1]; }));
            }),
      entry("isclose.default", lowerIsClose),
      logicOf("logical_and.default", Op::And),
      logicOf("logical_or.default", Op::Or),
      logicOf("logical_xor.default", Op::Xor),
      entry("where.self", lowerWhere),
      entry("where.Scalar", lowerWhere),
      entry("where.ScalarSelf", lowerWhere),
      entry("where.ScalarOther", lowerWhere),
      entry("masked_fill.Scalar", lowerMaskedFill),
      entry("masked_fill.Tensor", lowerMaskedFill),
      entry("clamp.default", [](Call& c) { lowerClamp(c, "min", "max"); }),
      entry("clamp.Tensor", [](Call& c) { lowerClamp(c, "min", "max"); }),
      entry("clamp_min.default", [](Call& c) { lowerClamp(c, "min", ""); }),
      entry("clamp_min.Tensor", [](Call& c) { lowerClamp(c, "min", ""); }),
      entry("clamp_max.default", [](Call& c) { lowerClamp(c, "", "max"); }),
      entry("clamp_max.Tensor", [](Call& c) { lowerClamp(c, "", "max"); }),
      entry("lerp.Scalar", lowerLerp),
      entry("lerp.Tensor", lowerLerp),
      entry("addcmul.default", [](Call& c) { lowerAddcmul(c, false); }),
      entry("addcdiv.default", [](Call& c) { lowerAddcmul(c, true); }),
      entry("nan_to_num.default", lowerNanToNum),
      unaryOf("special_entr", transcendental + 4,
              [](Scalar x) {
                const Scalar below = where(x < 0.0, x.number(-infinity), x);  // NaN stays
                return where(x > 0.0, -x * log(x), where(x == 0.0, x.number(0), below));
              }),
      unaryOf("special_ndtr", transcendental,
              [](Scalar x) { return 0.5 * unary(Op::Erfc, x * (-1 / std::numbers::sqrt2)); }),
      unaryOf("angle", 2,
              [](Scalar x) { return where(isNan(x), x, where(x < 0.0, x.number(std::numbers::pi), x.number(0))); }),
      floatBinaryOf("ldexp.Tensor", transcendental, [](Scalar x, Scalar n) { return x * exp2(n); }),
      entry("heaviside.default",
            [](Call& c) {
              const DType d = c.resultType();
              if (d == DType::Bool) c.refuse("self", "is bool");
              c.result(c.pointwise({c.tensor("self"), c.tensor("values")}, d, d, 3,
                                   [](Values v) { return where(v[0] == 0.0, v[1], (v[0] > 0.0).to(v[0].dtype())); }));
            }),
      entry("round.decimals", lowerRoundDecimals),
      entry("logit.default", lowerLogit),
  };
  return out;
}

}  // namespace graft::lower
