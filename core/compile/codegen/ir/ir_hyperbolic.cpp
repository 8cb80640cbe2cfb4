// Hyperbolic functions and their inverses; ir_math.cpp says where the formulas come from.
#include "core/compile/codegen/ir/ir_floats.h"
#include "core/compile/codegen/ir/ir_math.h"

namespace graft::codegen {
namespace {

/// e^|x| / 2, rounded once: e^|x| itself may be too large. NaN stays.
Value halfOfExp(const Floats& f, const Value& size) {
  const ExpReduced e = reduceExp(f, f.clamp(size, 0, 91), Floats::kScaleBias);
  return f.scale(f.add(expm1OfSmall(f, e.r), f(1)), f.subtract(e.n.number, f(1)),
                 f.b.binary("sub", e.n.bits, f.whole(1)));
}

/// log(u + lost) of u >= 1, where `lost` is small beside u.
Value logOfSum(const Floats& f, const Value& u, const Value& lost) {
  const LogReduced e = reduceLog(f, u);
  const Value tail = f.add(f.fma(e.exponent, f(kLn2Low), e.tail), f.divide(lost, u));
  return f.fma(e.exponent, f(kLn2High), f.add(e.m, tail));
}

/// log(x + root), where root² = t + tLost about x², and what rounding the root and the sum loses is added.
Value logOfRootAndX(const Floats& f, const Value& x, const Value& t, const Value& tLost) {
  IrBuilder& b = f.b;
  const Value root = b.intrinsic("llvm.sqrt", {t});
  const Value rest = f.add(f.fma(b.unary("fneg", root), root, t), tLost);
  const Value rootLost = f.divide(rest, f.add(root, root));
  const Value sum = f.add(root, x);
  // Knuth's exact sum, whichever of the two is larger
  const Value back = f.subtract(sum, root);
  const Value sumLost = f.add(f.subtract(root, f.subtract(sum, back)), f.subtract(x, back));
  return logOfSum(f, sum, f.add(sumLost, rootLost));
}

constexpr double kLn2 = 0.69314718055994531;

}  // namespace

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

Value emitSinh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value z = f.multiply(x, x);
  const Value p = f.polynomial(z, {2.03721912945E-4, 8.33028376239E-3, 1.66667160211E-1});
  const Value near = f.fma(f.multiply(p, z), size, size);
  const Value half = halfOfExp(f, size);
  const Value far = f.subtract(half, f.divide(f(0.25), half));
  return f.copySign(b.select(b.compare("fcmp olt", size, f(1)), near, far), x);
}

Value emitCosh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value half = halfOfExp(f, f.absolute(x));
  return f.add(half, f.divide(f(0.25), half));
}

Value emitAsinh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value z = f.multiply(x, x);
  const Value p = f.polynomial(z, {2.0122003309E-2, -4.2699340972E-2, 7.4847586088E-2, -1.6666288134E-1});
  const Value near = f.fma(f.multiply(p, z), size, size);
  // Beyond 2^13, the root is x.
  const Value isFar = b.compare("fcmp ogt", size, f(8192));
  const Value middle = b.select(isFar, f(1), size);
  const Value t = f.fma(middle, middle, f(1));
  const Value tLost = f.fma(middle, middle, f.subtract(f(1), t));
  const Value log = logOfRootAndX(f, middle, t, tLost);
  const Value far = f.add(emitLog(b, size), f(kLn2));
  const Value result = b.select(b.compare("fcmp olt", size, f(0.5)), near, b.select(isFar, far, log));
  return f.copySign(b.select(b.compare("fcmp uno", x, x), x, result), x);
}

Value emitAcosh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value above = f.subtract(x, f(1));
  const Value p =
      f.polynomial(above, {1.7596881071E-3, -7.5272886713E-3, 2.6454905019E-2, -1.1784741703E-1, 1.4142135263E0});
  const Value near = f.multiply(p, b.intrinsic("llvm.sqrt", {above}));  // NaN below 1
  const Value isFar = b.compare("fcmp ogt", x, f(8192));
  const Value middle = b.select(isFar, f(2), x);
  const Value t = f.fma(middle, middle, f(-1));
  const Value tLost = f.fma(middle, middle, f.subtract(f(-1), t));
  const Value log = logOfRootAndX(f, middle, t, tLost);
  const Value far = f.add(emitLog(b, x), f(kLn2));
  return b.select(b.compare("fcmp ult", above, f(0.5)), near, b.select(isFar, far, log));
}

Value emitAtanh(IrBuilder& b, const Value& x) {
  const Floats f{b};
  const Value size = f.absolute(x);
  const Value z = f.multiply(x, x);
  const Value p =
      f.polynomial(z, {1.81740078349E-1, 8.24370301058E-2, 1.46691431730E-1, 1.99782164500E-1, 3.33337300303E-1});
  const Value near = f.fma(f.multiply(p, z), size, size);
  // log1p(2 |x| / (1 - |x|)) / 2: the subtraction is exact from 1/2 on
  const Value far = f.multiply(emitLog1p(b, f.divide(f.add(size, size), f.subtract(f(1), size))), f(0.5));
  const Value result = b.select(b.compare("fcmp olt", size, f(0.5)), near, far);
  return f.copySign(result, x);
}

}  // namespace graft::codegen
