// Trigonometric functions and their inverses; ir_math.cpp says where the formulas come from.
#include "core/compile/codegen/ir/ir_floats.h"
#include "core/compile/codegen/ir/ir_math.h"

namespace graft::codegen {
namespace {

constexpr double kHalfPi = 1.57079632679489662;
// pi/2 as the nearest f32, and what that leaves.
constexpr double kHalfPiHigh = 1.57079637050628662, kHalfPiLow = -4.37113900018624283e-8;
constexpr double kLarge = 1e4;  ///< arguments from here on are reduced by the C library

/// x = n pi/2 + r, |r| <= pi/4, of |x| < kLarge: pi/2 has four parts (Cody and Waite). `lost` is what rounding r lost.
struct Quarters {
  Value n, r, lost;
};
Quarters reduceQuarters(const Floats& f, const Value& x) {
  const Value inside = f.b.select(f.b.compare("fcmp olt", f.absolute(x), f(kLarge)), x, f(0));
  const Floats::Rounded n = f.round(inside, 1 / kHalfPi);
  Value high = f.fma(n.number, f(-1.5703125), x);
  high = f.fma(n.number, f(-4.8351287841796875e-4), high);
  high = f.fma(n.number, f(-3.1385570764541626e-7), high);
  const Value r = f.fma(n.number, f(-6.0771005065061922e-11), high);
  return {n.integer, r, f.fma(n.number, f(-6.0771005065061922e-11), f.subtract(high, r))};
}

Value isOdd(const Floats& f, const Value& n) {
  return f.b.compare("icmp ne", f.b.binary("and", n, f.whole(1)), f.whole(0));
}

/// The C library's for large arguments, infinities and NaN; x itself, with its sign, for zeros of odd functions.
Value withEnds(const Floats& f, const Value& x, const Value& inside, bool isFunctionOdd, const char* library) {
  IrBuilder& b = f.b;
  const Value usual = isFunctionOdd ? b.select(b.compare("fcmp oeq", x, f(0)), x, inside) : inside;
  const Value isLarge = b.compare("fcmp uge", f.absolute(x), f(kLarge));
  return whereRare(b, isLarge, x, usual, [&](const Value& rare) { return b.callEach(library, {rare}); });
}

/// x = n pi + r for the sine, (n + 1/2) pi + r for the cosine, |r| <= pi/2: both are the sine of r then, but for the
/// sign. Its coefficients are those of SLEEF (N. Shibata and F. Petrogalli, 2020).
Value sinOrCos(IrBuilder& b, const Value& x, bool isCos) {
  const Floats f{b};
  const Floats::Rounded n = isCos ? f.round(f.fma(x, f(0.5 / kHalfPi), f(-0.5)), 1) : f.round(x, 0.5 / kHalfPi);
  // pi has four parts (Cody and Waite), the halves of which count for the cosine.
  const Value times = isCos ? f.fma(n.number, f(2), f(1)) : n.number;
  const double half = isCos ? 0.5 : 1;
  Value r = f.fma(times, f(-3.140625 * half), x);
  r = f.fma(times, f(-9.670257568359375e-4 * half), r);
  r = f.fma(times, f(-6.2771141529083252e-7 * half), r);
  r = f.fma(times, f(-1.2154201013012384e-10 * half), r);
  const Value z = f.multiply(r, r);
  const Value p = f.polynomial(
      z, {2.6083159809786593542e-06, -1.981069071916863322e-4, 8.33307858556509017944e-3, -1.66666597127914428711e-1});
  Value sine = f.fma(f.multiply(p, z), r, r);
  if (!isCos) sine = f.copySign(sine, r);  // of -0, too
  const Value turns = isCos ? b.binary("add", n.integer, f.whole(1)) : n.integer;
  const Value sign = b.binary("shl", turns, f.whole(31));
  const Value usual = f.fromBits(b.binary("xor", f.bits(sine), sign));
  return withEnds(f, x, usual, false, isCos ? "cosf" : "sinf");
}

/// asin(s) - s for 0 <= s <= 1/2, z = s².
Value asinTail(const Floats& f, const Value& s, const Value& z) {
  const Value p =
      f.polynomial(z, {4.2163199048E-2, 2.4181311049E-2, 4.5470025998E-2, 7.4953002686E-2, 1.6666752422E-1});
  return f.multiply(f.multiply(p, z), s);
}

/// What asin and acos share: of |x| > 1/2, asin of s = sqrt((1 - |x|) / 2) is half of acos |x|; else s = |x|.
struct HalfAngle {
  Value isFar, s, tail;
};
HalfAngle halfAngle(const Floats& f, const Value& x) {
  IrBuilder& b = f.b;
  const Value size = f.absolute(x);
  const Value isFar = b.compare("fcmp ogt", size, f(0.5));
  const Value z = b.select(isFar, f.fma(size, f(-0.5), f(0.5)), f.multiply(size, size));
  const Value s = b.select(isFar, b.intrinsic("llvm.sqrt", {z}), size);  // NaN beyond 1
  return {isFar, s, asinTail(f, s, z)};
}

}  // namespace

Value emitSin(IrBuilder& b, const Value& x) { return sinOrCos(b, x, false); }
Value emitCos(IrBuilder& b, const Value& x) { return sinOrCos(b, x, true); }

Value emitTan(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Quarters q = reduceQuarters(f, x);
  const Value z = f.multiply(q.r, q.r);
  const Value p = f.polynomial(
      z, {9.38540185543E-3, 3.11992232697E-3, 2.44301354525E-2, 5.34112807005E-2, 1.33387994085E-1, 3.33331568548E-1});
  // tan(r + lost) is about tan r + lost (1 + tan² r)
  const Value rest = f.fma(f.multiply(p, z), q.r, f.fma(q.lost, z, q.lost));
  const Value tangent = f.add(rest, q.r);
  // -1 / (tangent + l) is about c + l c², c = -1 / tangent, where l is what rounding the tangent lost
  const Value c = f.divide(f(-1), tangent);
  const Value cotangent = f.fma(f.multiply(f.subtract(rest, f.subtract(tangent, q.r)), c), c, c);
  return withEnds(f, x, b.select(isOdd(f, q.n), cotangent, tangent), true, "tanf");
}

Value emitAsin(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const HalfAngle h = halfAngle(f, x);
  const Value angle = f.add(h.s, h.tail);
  const Value far = f.subtract(f(kHalfPiHigh), f.fma(angle, f(2), f(-kHalfPiLow)));
  return f.copySign(b.select(h.isFar, far, angle), x);
}

Value emitAcos(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const HalfAngle h = halfAngle(f, x);
  const Value isNegative = b.compare("fcmp olt", x, f(0));
  const Value angle = f.add(h.s, h.tail);
  const Value twice = f.add(angle, angle);
  const Value far = b.select(isNegative, f.add(f.subtract(f(2 * kHalfPiHigh), twice), f(2 * kHalfPiLow)), twice);
  // pi/2 - x - tail, or pi/2 + |x| + tail
  const Value signedAngle = f.copySign(angle, x);
  const Value near = f.add(f.subtract(f(kHalfPiHigh), signedAngle), f(kHalfPiLow));
  return b.select(h.isFar, far, near);
}

Value emitAtan(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value isLarge = b.compare("fcmp ogt", size, f(2.414213562373095));
  const Value isMiddle = b.compare("fcmp ogt", size, f(0.4142135623730950));
  const Value numerator = b.select(isLarge, f(-1), b.select(isMiddle, f.subtract(size, f(1)), size));
  const Value denominator = b.select(isLarge, size, b.select(isMiddle, f.add(size, f(1)), f(1)));
  const Value r = f.divide(numerator, denominator);
  const Value start = b.select(isLarge, f(kHalfPiHigh), b.select(isMiddle, f(kHalfPiHigh / 2), f(0)));
  const Value startLow = b.select(isLarge, f(kHalfPiLow), b.select(isMiddle, f(kHalfPiLow / 2), f(0)));
  const Value z = f.multiply(r, r);
  const Value p = f.polynomial(z, {8.05374449538e-2, -1.38776856032E-1, 1.99777106478E-1, -3.33329491539E-1});
  const Value rest = f.fma(f.multiply(p, z), r, startLow);
  return f.copySign(f.add(start, f.add(r, rest)), x);
}

}  // namespace graft::codegen
