// What the functions of ir_math.h are made of: formulas of f32 values, and the parts of exp and log that several of
// them share.
#pragma once

#include <functional>
#include <limits>

#include "core/compile/codegen/ir/ir_builder.h"

namespace graft::codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Arithmetic on f32 values, for formulas.
struct Floats {
  IrBuilder& b;

  Value operator()(double v) const { return b.number(DType::Float32, v); }
  Value add(const Value& x, const Value& y) const { return b.binary("fadd", x, y); }
  Value subtract(const Value& x, const Value& y) const { return b.binary("fsub", x, y); }
  Value multiply(const Value& x, const Value& y) const { return b.binary("fmul", x, y); }
  Value divide(const Value& x, const Value& y) const { return b.binary("fdiv", x, y); }
  Value fma(const Value& x, const Value& y, const Value& z) const { return b.multiplyAdd(x, y, z); }
  Value absolute(const Value& x) const { return b.intrinsic("llvm.fabs", {x}); }
  Value copySign(const Value& size, const Value& sign) const { return b.intrinsic("llvm.copysign", {size, sign}); }
  Value bits(const Value& x) const { return b.convert("bitcast", x, DType::Int32); }
  Value fromBits(const Value& x) const { return b.convert("bitcast", x, DType::Float32); }
  Value whole(int64_t v) const { return b.integer(DType::Int32, v); }
  /// c0 + c1 x + c2 x² …, from the highest coefficient down, by Horner's rule of pairs in x² (after Estrin): half as
  /// many multiplications wait for each other.
  Value polynomial(const Value& x, std::initializer_list<double> fromHighest) const {
    const double* c = fromHighest.begin();
    const Value square = multiply(x, x);
    Value sum;
    if (fromHighest.size() % 2 == 1) sum = (*this)(*c++);
    for (; c != fromHighest.end(); c += 2) {
      const Value pair = fma((*this)(c[0]), x, (*this)(c[1]));
      sum = sum ? fma(sum, square, pair) : pair;
    }
    return sum;
  }
  /// x, but no less and no more than the limits; NaN stays.
  Value clamp(const Value& x, double low, double high) const {
    const Value atLeast = b.select(b.compare("fcmp olt", x, (*this)(low)), (*this)(low), x);
    return b.select(b.compare("fcmp ogt", atLeast, (*this)(high)), (*this)(high), atLeast);
  }
  /// The whole number n nearest to x * factor, by adding 1.5 * 2^23, whose last bit counts ones: |x * factor| < 2^22.
  /// The last nine bits of `bits` are those of n + bias, as a power of two has them in its exponent.
  struct Rounded {
    Value number, integer, bits;
  };
  Rounded round(const Value& x, double factor, int bias = 0) const {
    const double shift = 12582912 + bias;
    const Value shifted = fma(x, (*this)(factor), (*this)(shift));
    return {subtract(shifted, (*this)(shift)), b.binary("sub", bits(shifted), whole(0x4b400000 + bias)), bits(shifted)};
  }
  /// 2^(k - 127) of the last nine bits k, 0 < k < 255. Products with it keep NaN, whatever k then is.
  Value powerOfBits(const Value& k) const { return fromBits(b.binary("shl", k, whole(23))); }
  /// 2^n, -126 <= n <= 127.
  Value powerOfTwo(const Value& n) const { return powerOfBits(b.binary("add", n, whole(127))); }
  /// x * 2^n for x about 1 where that is a normal number.
  Value scaleNormal(const Value& x, const Rounded& n) const { return multiply(x, powerOfTwo(n.integer)); }
  static constexpr int kScaleBias = 254;
  /// x * 2^n for x about 1 and -252 <= n <= 254, of n rounded with this bias; rounded once: half of the exponent is
  /// exact.
  Value scale(const Value& x, const Value& number, const Value& bits) const {
    if (b.canScale(x)) return b.scale(x, number);
    const Value half = b.binary("lshr", bits, whole(1));
    return multiply(multiply(x, powerOfBits(half)), powerOfBits(b.binary("sub", bits, half)));
  }
  static constexpr int kScaleDownBias = 154;
  /// x * 2^n for x about 1 and -152 <= n <= 100, of n rounded with this bias; rounded once: x * 2^(n + 27) is exact.
  Value scaleDown(const Value& x, const Rounded& n) const {
    if (b.canScale(x)) return b.scale(x, n.number);
    return multiply(multiply(x, powerOfBits(n.bits)), (*this)(0x1p-27));
  }
};

inline constexpr double kLog2E = 1.44269504088896341;
// ln 2 in two parts; the first has few enough bits for its product with an exponent to be exact.
inline constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;

/// x = n ln 2 + r, |r| <= ln 2 / 2.
struct ExpReduced {
  Floats::Rounded n;
  Value r;
};
ExpReduced reduceExp(const Floats&, const Value& x, int bias = 0);

/// e^r - 1, |r| <= ln 2 / 2.
Value expm1OfSmall(const Floats&, const Value& r);

/// e^x where that is a normal number, -87 <= x <= 88.
Value expOfModerate(const Floats&, const Value& x);

/// e^x of x <= 0, or NaN. Right up to 69: where x is a difference of large products, fused multiply-adds leave more
/// than 0 of what is 0.
Value expOfNonPositive(const Floats&, const Value& x);

/// x = 2^exponent (1 + m), sqrt(1/2) <= 1 + m < sqrt(2), of x > 0; and log(1 + m) = m + tail.
struct LogReduced {
  Value exponent, m, tail;
};
LogReduced reduceLog(const Floats&, const Value& x);

/// `inside` where x > 0 and finite; the values of a logarithm elsewhere.
Value withLogEnds(const Floats&, const Value& x, const Value& inside);

/// Where some lane needs it, computes of `x` what is rarely needed.
Value whereRare(IrBuilder&, const Value& condition, const Value& x, const Value& usual,
                const std::function<Value(const Value& x)>& rare);

}  // namespace graft::codegen
