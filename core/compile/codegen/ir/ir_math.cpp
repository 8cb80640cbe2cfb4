// The reductions and most coefficients are those of Cephes' single-precision functions (S. Moshier, Methods and
// Programs for Mathematical Functions, 1989), with fused multiply-adds where the processor has them. See also
// J.-M. Muller, Elementary Functions, 3rd edition, chapters 5 (polynomials) and 11 (range reduction).
#include "core/compile/codegen/ir/ir_math.h"

#include <functional>
#include <limits>

namespace graft::codegen {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  /// The whole number nearest to x * factor, by adding 1.5 * 2^23, whose last bit counts ones: |x * factor| < 2^22.
  struct Rounded {
    Value number, integer;
  };
  Rounded round(const Value& x, double factor) const {
    constexpr double kShift = 12582912;
    const Value shifted = fma(x, (*this)(factor), (*this)(kShift));
    return {subtract(shifted, (*this)(kShift)), b.binary("sub", bits(shifted), whole(0x4b400000))};
  }
  /// 2^n, -126 <= n <= 127.
  Value powerOfTwo(const Value& n) const {
    return fromBits(b.binary("shl", b.binary("add", n, whole(127)), whole(23)));
  }
  /// x * 2^n for x about 1 where that is a normal number.
  Value scaleNormal(const Value& x, const Rounded& n) const {
    return fromBits(b.binary("add", bits(x), b.binary("shl", n.integer, whole(23))));
  }
  /// x * 2^n for x about 1 and -252 <= n <= 254, rounded once: half of the exponent is exact.
  Value scale(const Value& x, const Rounded& n) const {
    if (b.canScale(x)) return b.scale(x, n.number);
    const Value first = b.binary("ashr", n.integer, whole(1));
    const Value exact = fromBits(b.binary("add", bits(x), b.binary("shl", first, whole(23))));
    return multiply(exact, powerOfTwo(b.binary("sub", n.integer, first)));
  }
};

constexpr double kLog2E = 1.44269504088896341;
// ln 2 in two parts; the first has few enough bits for its product with an exponent to be exact.
constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;

/// x = n ln 2 + r, |r| <= ln 2 / 2.
struct ExpReduced {
  Floats::Rounded n;
  Value r;
};
ExpReduced reduceExp(const Floats& f, const Value& x) {
  const Floats::Rounded n = f.round(x, kLog2E);
  const Value r = f.fma(n.number, f(-kLn2High), x);
  return {n, f.fma(n.number, f(-kLn2Low), r)};
}

/// e^r - 1, |r| <= ln 2 / 2.
Value expm1OfSmall(const Floats& f, const Value& r) {
  const Value tail = f.polynomial(
      r, {1.9875691500E-4, 1.3981999507E-3, 8.3334519073E-3, 4.1665795894E-2, 1.6666665459E-1, 5.0000001201E-1});
  return f.fma(f.multiply(r, r), tail, r);
}

/// e^x where that is a normal number, -87 <= x <= 88.
Value expOfModerate(const Floats& f, const Value& x) {
  const ExpReduced e = reduceExp(f, x);
  return f.scaleNormal(f.add(expm1OfSmall(f, e.r), f(1)), e.n);
}

/// log of x >= 0, without the special cases: e ln 2 + log1p(m), with sqrt(1/2) <= 1 + m < sqrt(2).
Value logOfPositive(const Floats& f, const Value& x) {
  IrBuilder& b = f.b;
  const Value isTiny = b.compare("fcmp olt", x, f(1.1754943508222875e-38));
  const Value scaled = b.select(isTiny, f.multiply(x, f(8388608.0)), x);
  // Counted from sqrt(1/2), the exponent's bits are e.
  const Value offset = b.binary("sub", f.bits(scaled), f.whole(0x3f3504f3));
  const Value e = b.binary("ashr", offset, f.whole(23));
  const Value mantissa = f.fromBits(b.binary("add", b.binary("and", offset, f.whole(0x7fffff)), f.whole(0x3f3504f3)));
  const Value exponent = f.add(b.convert("sitofp", e, DType::Float32), b.select(isTiny, f(-23), f(0)));
  const Value m = f.subtract(mantissa, f(1));
  const Value z = f.multiply(m, m);
  const Value p =
      f.polynomial(m, {7.0376836292E-2, -1.1514610310E-1, 1.1676998740E-1, -1.2420140846E-1, 1.4249322787E-1,
                       -1.6668057665E-1, 2.0000714765E-1, -2.4999993993E-1, 3.3333331174E-1});
  Value y = f.multiply(f.multiply(m, z), p);
  y = f.fma(exponent, f(kLn2Low), y);
  y = f.fma(z, f(-0.5), y);
  return f.fma(exponent, f(kLn2High), f.add(m, y));
}

/// Where some lane needs it, computes what is rarely needed.
Value whereRare(IrBuilder& b, const Value& condition, const Value& usual, const std::function<Value()>& rare) {
  const int scope = std::max(condition.scope, usual.scope);
  b.suspend(scope);
  const Value once = b.convert("zext", b.anyLane(condition), DType::Int64);
  b.openLoop(b.integer(DType::Int64, 0), once, 1, {usual});
  const Value result = b.closeLoop({b.select(condition, rare(), usual)}).front();
  b.resume();
  return result;
}

Value sinOrCos(IrBuilder& b, const Value& x, bool isCos) {
  const Floats f{b};
  const Value size = f.absolute(x);
  // x = n pi/2 + r, |r| <= pi/4, with pi/2 in four parts (Cody and Waite); `lost` is what rounding r has lost.
  const Value inside = b.select(b.compare("fcmp olt", size, f(1e4)), x, f(0));
  const Floats::Rounded n = f.round(inside, 0.63661977236758134);
  Value high = f.fma(n.number, f(-1.5703125), x);
  high = f.fma(n.number, f(-4.8351287841796875e-4), high);
  high = f.fma(n.number, f(-3.1385570764541626e-7), high);
  const Value r = f.fma(n.number, f(-6.0771005065061922e-11), high);
  const Value lost = f.fma(n.number, f(-6.0771005065061922e-11), f.subtract(high, r));
  const Value z = f.multiply(r, r);
  const Value s = f.multiply(f.polynomial(z, {-1.9515295891E-4, 8.3321608736E-3, -1.6666654611E-1}), z);
  const Value sine = f.add(f.fma(s, r, lost), r);
  const Value cosine =
      f.fma(f.multiply(z, z), f.polynomial(z, {2.443315711809948E-5, -1.388731625493765E-3, 4.166664568298827E-2}),
            f.fma(z, f(-0.5), f(1)));
  const Value quarter = isCos ? b.binary("add", n.integer, f.whole(1)) : n.integer;
  const Value takesCosine = b.compare("icmp ne", b.binary("and", quarter, f.whole(1)), f.whole(0));
  const Value chosen = b.select(takesCosine, cosine, sine);
  const Value sign = b.binary("shl", b.binary("and", quarter, f.whole(2)), f.whole(30));
  Value usual = f.fromBits(b.binary("xor", f.bits(chosen), sign));
  if (!isCos) usual = b.select(b.compare("fcmp oeq", x, f(0)), x, usual);
  const Value isLarge = b.compare("fcmp uge", size, f(1e4));
  return whereRare(b, isLarge, usual, [&] { return b.callEach(isCos ? "cosf" : "sinf", {x}); });
}

}  // namespace

Value emitExp(IrBuilder& b, const Value& value) {
  const Floats f{b};
  const ExpReduced e = reduceExp(f, f.clamp(value, -105, 90));  // beyond, the result is 0 or infinite
  return f.scale(f.add(expm1OfSmall(f, e.r), f(1)), e.n);
}

Value emitExp2(IrBuilder& b, const Value& value) {
  const Floats f{b};
  const Value x = f.clamp(value, -152, 130);
  const Floats::Rounded n = f.round(x, 1);
  const Value r = f.multiply(f.subtract(x, n.number), f(0.69314718055994531));
  return f.scale(f.add(expm1OfSmall(f, r), f(1)), n);
}

Value emitExpm1(IrBuilder& b, const Value& value) {
  const Floats f{b};
  const ExpReduced e = reduceExp(f, f.clamp(value, -60, 89));
  const Value p = expm1OfSmall(f, e.r);
  // 2 (2^(n-1) p + (2^(n-1) - 1/2)): 2^n itself may be too large
  const Value half = f.powerOfTwo(b.binary("sub", e.n.integer, f.whole(1)));
  const Value sum = f.fma(half, p, f.subtract(half, f(0.5)));
  const Value small = b.compare("icmp eq", e.n.integer, f.whole(0));
  const Value isZero = b.compare("fcmp oeq", value, f(0));
  return b.select(isZero, value, b.select(small, p, f.add(sum, sum)));
}

Value emitLog(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value inside = logOfPositive(f, x);
  const Value atZero =
      b.select(b.compare("fcmp oeq", x, f(0)), f(-kInfinity), f(std::numeric_limits<double>::quiet_NaN()));
  const Value isInfinite = b.compare("fcmp oeq", x, f(kInfinity));
  return b.select(isInfinite, x, b.select(b.compare("fcmp ogt", x, f(0)), inside, atZero));
}

Value emitLog1p(IrBuilder& b, const Value& x) {
  const Floats f{b};
  // log u, and what rounding 1 + x to u has lost
  const Value u = f.add(x, f(1));
  const Value lost = f.subtract(x, f.subtract(u, f(1)));
  const Value log = emitLog(b, u);
  const Value exact = f.add(log, f.divide(lost, u));
  const Value isInside = b.binary("and", b.compare("fcmp ogt", u, f(0)), b.compare("fcmp olt", u, f(kInfinity)));
  return b.select(b.compare("fcmp oeq", u, f(1)), x, b.select(isInside, exact, log));
}

Value emitTanh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value z = f.multiply(x, x);
  const Value p =
      f.polynomial(z, {-5.70498872745E-3, 2.06390887954E-2, -5.37397155531E-2, 1.33314422036E-1, -3.33332819422E-1});
  const Value near = f.fma(f.multiply(p, z), size, size);
  const Value most = b.select(b.compare("fcmp ogt", size, f(10)), f(10), size);  // where it has become 1
  const Value e = expOfModerate(f, f.add(most, most));
  const Value far = f.subtract(f(1), f.divide(f(2), f.add(e, f(1))));
  return f.copySign(b.select(b.compare("fcmp olt", size, f(0.625)), near, far), x);
}

Value emitSigmoid(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value e = emitExp(b, b.unary("fneg", f.absolute(x)));
  // 1 / (1 + e) or e / (1 + e): neither loses digits where it is small
  const Value numerator = b.select(b.compare("fcmp olt", x, f(0)), e, f(1));
  return f.divide(numerator, f.add(e, f(1)));
}

Value emitErf(IrBuilder& b, const Value& x) {
  // Two ranges, as N. Juffa suggests: a polynomial below 475/512, and 1 - exp of one above.
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value s = f.multiply(x, x);
  const Value near = f.fma(
      f.polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1}), x,
      x);
  const Value t = b.select(b.compare("fcmp ogt", size, f(5)), f(5), size);  // where it has become 1
  const Value q = f.polynomial(t, {-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
                                   -6.34846687e-1, -1.28717512e-1});
  const Value exponent = f.fma(q, t, b.unary("fneg", t));
  const Value far = f.copySign(f.subtract(f(1), expOfModerate(f, exponent)), x);
  return b.select(b.compare("fcmp ogt", size, f(0.927734375)), far, near);
}

Value emitSin(IrBuilder& b, const Value& x) { return sinOrCos(b, x, false); }
Value emitCos(IrBuilder& b, const Value& x) { return sinOrCos(b, x, true); }

}  // namespace graft::codegen
