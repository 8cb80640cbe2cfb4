// The reductions and most coefficients here and in the files beside it are those of Cephes' single-precision functions
// (S. Moshier, Methods and Programs for Mathematical Functions, 1989), with fused multiply-adds where the processor has
// them. See also J.-M. Muller, Elementary Functions, 3rd edition, chapters 5 (polynomials) and 11 (range reduction).
#include "core/compile/codegen/ir/ir_math.h"

#include <cmath>

#include "core/compile/codegen/ir/ir_floats.h"

namespace graft::codegen {
namespace {

constexpr double kExpIsZero = -105;  ///< from here down, e^x is 0 in f32

}  // namespace

ExpReduced reduceExp(const Floats& f, const Value& x, int bias) {
  const Floats::Rounded n = f.round(x, kLog2E, bias);
  const Value r = f.fma(n.number, f(-kLn2High), x);
  return {n, f.fma(n.number, f(-kLn2Low), r)};
}

Value expm1OfSmall(const Floats& f, const Value& r) {
  // The polynomial of this degree that is nearest (Remez); its own error is 0.05 units in the last place of e^r.
  const Value tail =
      f.polynomial(r, {1.3814467238E-3, 8.3687808365E-3, 4.1668392718E-2, 1.6666519642E-1, 4.9999994040E-1});
  return f.fma(f.multiply(r, r), tail, r);
}

Value expOfModerate(const Floats& f, const Value& x) {
  const ExpReduced e = reduceExp(f, x);
  return f.scaleNormal(f.add(expm1OfSmall(f, e.r), f(1)), e.n);
}

Value expOfNonPositive(const Floats& f, const Value& x) {
  const Value inside = f.b.select(f.b.compare("fcmp olt", x, f(kExpIsZero)), f(kExpIsZero), x);
  const ExpReduced e = reduceExp(f, inside, Floats::kScaleDownBias);
  return f.scaleDown(f.add(expm1OfSmall(f, e.r), f(1)), e.n);
}

namespace {

/// x = mantissa * 2^exponent for x > 0, the mantissa from sqrt(1/2) to sqrt(2); both f32.
struct Parts {
  Value mantissa, exponent;
};

Parts partsOf(const Floats& f, const Value& x) {
  IrBuilder& b = f.b;
  const Value isTiny = b.compare("fcmp olt", x, f(1.1754943508222875e-38));
  const Value scaled = b.select(isTiny, f.multiply(x, f(8388608.0)), x);
  // Counted from sqrt(1/2), the exponent's bits are e.
  const Value offset = b.binary("sub", f.bits(scaled), f.whole(0x3f3504f3));
  const Value e = b.binary("ashr", offset, f.whole(23));
  const Value mantissa = f.fromBits(b.binary("add", b.binary("and", offset, f.whole(0x7fffff)), f.whole(0x3f3504f3)));
  return {mantissa, f.add(b.convert("sitofp", e, DType::Float32), b.select(isTiny, f(-23), f(0)))};
}

}  // namespace

LogReduced reduceLog(const Floats& f, const Value& x) {
  const auto [mantissa, exponent] = partsOf(f, x);
  const Value m = f.subtract(mantissa, f(1));
  const Value z = f.multiply(m, m);
  const Value p =
      f.polynomial(m, {7.0376836292E-2, -1.1514610310E-1, 1.1676998740E-1, -1.2420140846E-1, 1.4249322787E-1,
                       -1.6668057665E-1, 2.0000714765E-1, -2.4999993993E-1, 3.3333331174E-1});
  return {exponent, m, f.fma(z, f(-0.5), f.multiply(f.multiply(m, z), p))};
}

Value withLogEnds(const Floats& f, const Value& x, const Value& inside) {
  IrBuilder& b = f.b;
  const Value atZero = b.select(b.compare("fcmp oeq", x, f(0)), f(-kInfinity), f(kNaN));
  const Value isInfinite = b.compare("fcmp oeq", x, f(kInfinity));
  return b.select(isInfinite, x, b.select(b.compare("fcmp ogt", x, f(0)), inside, atZero));
}

Value whereRare(IrBuilder& b, const Value& condition, const Value& x, const Value& usual,
                const std::function<Value(const Value& x)>& rare) {
  b.suspend(std::max(condition.scope, usual.scope));
  const Value once = b.convert("zext", b.anyLane(condition), DType::Int64);
  // x is carried, so that what is computed of it belongs to the loop, and is not computed ahead of it in any case.
  const std::vector<Value> inside = b.openLoop(b.integer(DType::Int64, 0), once, 1, {usual, x});
  const Value result = b.closeLoop({b.select(condition, rare(inside[1]), usual), inside[1]}).front();
  b.resume();
  return result;
}

namespace {

/// A logarithm of another base: log 2 in two parts of which the first has few bits, and 1 / ln(base), likewise.
Value logOfBase(IrBuilder& b, const Value& x, double of2High, double of2Low, double factorHigh, double factorLow) {
  const Floats f{b};
  const LogReduced e = reduceLog(f, x);
  Value sum = f.fma(f.add(e.m, e.tail), f(factorLow), f.multiply(e.exponent, f(of2Low)));
  sum = f.fma(e.tail, f(factorHigh), sum);
  // The exponent's part is a whole number, or has few bits; m times the factor follows with one rounding.
  return withLogEnds(f, x, f.fma(e.exponent, f(of2High), f.fma(e.m, f(factorHigh), sum)));
}

}  // namespace

Value emitExp(IrBuilder& b, const Value& value) {
  const Floats f{b};
  const ExpReduced e = reduceExp(f, f.clamp(value, kExpIsZero, 90), Floats::kScaleBias);  // beyond, it is infinite
  return f.scale(f.add(expm1OfSmall(f, e.r), f(1)), e.n.number, e.n.bits);
}

Value emitExpNonPositive(IrBuilder& b, const Value& value) { return expOfNonPositive(Floats{b}, value); }

Value emitExp2(IrBuilder& b, const Value& value) {
  const Floats f{b};
  const Value x = f.clamp(value, -152, 130);
  const Floats::Rounded n = f.round(x, 1, Floats::kScaleBias);
  const Value r = f.multiply(f.subtract(x, n.number), f(0.69314718055994531));
  return f.scale(f.add(expm1OfSmall(f, r), f(1)), n.number, n.bits);
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
  const LogReduced e = reduceLog(f, x);
  const Value tail = f.fma(e.exponent, f(kLn2Low), e.tail);
  return withLogEnds(f, x, f.fma(e.exponent, f(kLn2High), f.add(e.m, tail)));
}

Value emitLog2(IrBuilder& b, const Value& x) { return logOfBase(b, x, 1, 0, 1.44140625, 1.28879088896340736e-3); }
Value emitLog10(IrBuilder& b, const Value& x) {
  return logOfBase(b, x, 3.0078125e-1, 2.48745663981195213739e-4, 4.3359375e-1, 7.00731903251827651129e-4);
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

Value emitSigmoid(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value e = expOfNonPositive(f, b.unary("fneg", f.absolute(x)));
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

namespace {

/// log2 of x >= 0 in f64, to 35 bits or more; of 0 and infinity numbers far beyond those of others.
Value log2InDouble(const Floats& f, const Value& x) {
  IrBuilder& b = f.b;
  const auto wide = [&](double v) { return b.number(DType::Float64, v); };
  const auto [mantissa, exponent] = partsOf(f, x);
  const Value m = b.convert("fpext", mantissa, DType::Float64);
  // log m = 2 atanh t, |t| <= 0.1716
  const Value t = b.binary("fdiv", b.binary("fsub", m, wide(1)), b.binary("fadd", m, wide(1)));
  const Value z = b.binary("fmul", t, t);
  Value p = wide(2 * kLog2E / 13);
  for (int odd = 11; odd >= 1; odd -= 2) p = f.fma(p, z, wide(2 * kLog2E / odd));
  const Value log = f.fma(p, t, b.convert("fpext", exponent, DType::Float64));
  const Value isEnd = b.binary("or", b.compare("fcmp oeq", x, f(0)), b.compare("fcmp oeq", x, f(kInfinity)));
  return b.select(isEnd, b.select(b.compare("fcmp oeq", x, f(0)), wide(-1e300), wide(1e300)), log);
}

}  // namespace

Value emitPower(IrBuilder& b, const Value& x, const Value& y, std::optional<double> known) {
  const Floats f{b};
  const auto wide = [&](double v) { return b.number(DType::Float64, v); };
  const Value product = b.binary("fmul", log2InDouble(f, f.absolute(x)), b.convert("fpext", y, DType::Float64));
  // Beyond these, 2^p is 0 or infinite.
  const Value low = b.select(b.compare("fcmp olt", product, wide(-160)), wide(-160), product);
  const Value p = b.select(b.compare("fcmp ogt", low, wide(130)), wide(130), low);
  constexpr double kShift = 6755399441055744;  // 1.5 * 2^52: a sum with it is a whole number
  const Value n = b.binary("fsub", b.binary("fadd", p, wide(kShift)), wide(kShift));
  const Value r = b.convert("fptrunc", b.binary("fsub", p, n), DType::Float32);
  const Value number = b.convert("fptrunc", n, DType::Float32);
  const Value integer = b.convert("fptosi", b.unary("freeze", number), DType::Int32);
  const Value size = f.scale(f.add(expm1OfSmall(f, f.multiply(r, f(0.69314718055994531))), f(1)), number,
                             b.binary("add", integer, f.whole(Floats::kScaleBias)));
  // Of x with a sign: odd powers keep it, and those that are no whole numbers are NaN, but of -0 and -infinity.
  const auto isWhole = [&](const Value& v) { return b.compare("fcmp oeq", b.intrinsic("llvm.floor", {v}), v); };
  const bool isKnownWhole = known && std::floor(*known) == *known;
  const Value whole = known ? b.boolean(isKnownWhole) : isWhole(y);
  const Value odd = known ? b.boolean(isKnownWhole && std::fmod(*known, 2) != 0)
                          : b.binary("and", whole, b.binary("xor", isWhole(f.multiply(y, f(0.5))), b.boolean(true)));
  const Value signedSize = b.select(odd, f.copySign(size, x), size);
  const Value isNegative = b.binary("and", b.compare("fcmp olt", x, f(0)), b.compare("fcmp ogt", x, f(-kInfinity)));
  const Value noNumber = b.binary("and", isNegative, b.binary("xor", whole, b.boolean(true)));
  const Value usual = b.select(noNumber, f(kNaN), signedSize);
  const Value isRare = b.binary("or", b.compare("fcmp uno", x, y), b.compare("fcmp oeq", f.absolute(y), f(kInfinity)));
  return whereRare(b, isRare, x, usual, [&](const Value& rare) { return b.callEach("powf", {rare, y}); });
}

}  // namespace graft::codegen
