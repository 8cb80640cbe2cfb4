#include "core/compile/loops/simplify.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/compile/loops/algebra/fold.h"

namespace graft::loops {
namespace {

// Of quotients of quotients. An index of a view of a view has two or three.
constexpr int kDeepestQuotient = 8;

// In which order the parts of an expression are built: operands before what uses them, without those that `isDone`.
template <class IsDone>
std::vector<ExprId> partsInOrder(const ExprPool& pool, ExprId root, const IsDone& isDone) {
  std::vector<ExprId> open{root}, found;
  std::unordered_map<ExprId, bool> seen;
  while (!open.empty()) {
    const ExprId id = open.back();
    open.pop_back();
    if (isDone(id) || !seen.try_emplace(id, true).second) continue;
    found.push_back(id);
    for (const ExprId o : pool[id].operands) open.push_back(o);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Simplifier::Simplifier(Program& program) : program_(program), math_(std::make_unique<IndexMath>(program)) {}

ExprId Simplifier::integer(int64_t value) { return program_.expressions.integer(value); }

ExprId Simplifier::build(Atom a) {
  switch (a.kind) {
    case Atom::Kind::Range:
      return program_.expressions.range(RangeId(a.index));
    case Atom::Kind::Size:
      return program_.expressions.size(SizeId(a.index));
    default:
      return ExprId(a.index);
  }
}

ExprId Simplifier::build(const Monomial& factors) {
  ExprId out = build(factors[0]);
  for (size_t i = 1; i < factors.size(); ++i) out = program_.expressions.binary(Op::Multiply, out, build(factors[i]));
  return out;
}

// i0*s0*4 + i1 - 2: what is added first, so that no sum begins with a minus where it need not.
ExprId Simplifier::build(const Polynomial& p) {
  ExprPool& pool = program_.expressions;
  const auto scaled = [&](const Monomial& factors, int64_t n) {
    const ExprId product = build(factors);
    return n == 1 ? product : pool.binary(Op::Multiply, product, pool.integer(n));
  };
  const auto isSubtracted = [](int64_t n) { return n < 0 && n != INT64_MIN; };
  const auto first =
      std::find_if(p.terms.begin(), p.terms.end(), [&](const Term& t) { return !isSubtracted(t.coefficient); });
  ExprId out;
  if (first != p.terms.end())
    out = scaled(first->factors, first->coefficient);
  else if (p.terms.empty() || p.constant != 0)
    out = pool.integer(p.constant);
  const bool isConstantUsed = first == p.terms.end() && out;
  for (auto t = p.terms.begin(); t != p.terms.end(); ++t) {
    if (t == first) continue;
    if (!out) {
      out = pool.unary(Op::Negate, scaled(t->factors, -t->coefficient));
    } else if (isSubtracted(t->coefficient)) {
      out = pool.binary(Op::Subtract, out, scaled(t->factors, -t->coefficient));
    } else {
      out = pool.binary(Op::Add, out, scaled(t->factors, t->coefficient));
    }
  }
  if (p.constant == 0 || isConstantUsed) return out;
  return isSubtracted(p.constant) ? pool.binary(Op::Subtract, out, pool.integer(-p.constant))
                                  : pool.binary(Op::Add, out, pool.integer(p.constant));
}

// No divisor is 0.
bool Simplifier::isPositiveDivisor(const Polynomial& d) { return !d.isZero() && math_->isNonNegative(d); }

// 0 <= p < limit, for a limit that is a positive divisor.
bool Simplifier::isWithin(const Polynomial& p, const Polynomial& limit) {
  const std::vector<Polynomial> facts{limit - Polynomial(1)};
  return math_->isNonNegative(p, facts) && math_->isNonNegative(limit - p - Polynomial(1), facts);
}

// The term that is factor * d * (x // d % m), with m.
std::optional<std::pair<Term, Polynomial>> Simplifier::findHigherDigit(const Polynomial& p, const Polynomial& scale,
                                                                       const Polynomial& quotient) {
  for (const Term& t : p.terms)
    for (size_t i = 0; i < t.factors.size(); ++i) {
      if (t.factors[i].kind != Atom::Kind::Other) continue;
      const Expr e = program_.expressions[ExprId(t.factors[i].index)];
      if (e.op != Op::Remainder || !math_->isExact(e.operands[0]) || !math_->isExact(e.operands[1])) continue;
      Monomial others = t.factors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (!(Polynomial::term({std::move(others), t.coefficient}) == scale) ||
          !(math_->polynomial(e.operands[0]) == quotient))
        continue;
      Polynomial m = math_->polynomial(e.operands[1]);
      if (isPositiveDivisor(m)) return std::pair(t, std::move(m));
    }
  return std::nullopt;
}

// (x // d) * d + x % d is x, and (x // d % m) * d + x % d is x % (d*m), also with a factor before both.
bool Simplifier::joinRemainder(Polynomial& p) {
  if (p.terms.size() < 2 || !p.fits) return false;
  for (const Term& t : p.terms) {
    for (size_t i = 0; i < t.factors.size(); ++i) {
      if (t.factors[i].kind != Atom::Kind::Other) continue;
      const Expr e = program_.expressions[ExprId(t.factors[i].index)];
      if (e.op != Op::Remainder || !math_->isExact(e.operands[0]) || !math_->isExact(e.operands[1])) continue;
      const Polynomial x = math_->polynomial(e.operands[0]), d = math_->polynomial(e.operands[1]);
      if (!isPositiveDivisor(d)) continue;
      Monomial others = t.factors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const Polynomial factor = Polynomial::term({std::move(others), t.coefficient});
      const Polynomial high = quotient(x, d, 0);
      if (const auto digit = findHigherDigit(p, factor * d, high)) {
        const Polynomial both = d * digit->second;
        if (both.fits && math_->isExact(both)) {
          p = p - Polynomial::term(digit->first) - Polynomial::term(t) + factor * rest(x, both, 0);
          return true;
        }
      }
      const Polynomial whole = factor * d * high;
      // All of its terms must be there.
      if (!whole.fits || whole.isZero() || whole.constant != 0 ||
          std::any_of(whole.terms.begin(), whole.terms.end(),
                      [&](const Term& w) { return p.coefficient(w.factors) != w.coefficient; }))
        continue;
      p = p - whole - Polynomial::term(t) + factor * x;
      return true;
    }
  }
  return false;
}

ExprId Simplifier::sum(Polynomial p) {
  for (int i = 0; i < kDeepestQuotient && joinRemainder(p); ++i) {
  }
  return build(p);
}

// p // d, for an exact p and a positive d.
Polynomial Simplifier::quotient(const Polynomial& p, const Polynomial& d, int depth) {
  ExprPool& pool = program_.expressions;
  Division parts = divide(p, d);
  const Polynomial& r = parts.rest;
  if (r.isZero() || isWithin(r, d)) return parts.quotient;
  if (d.isConstant()) {
    const Bounds b = math_->bounds(r);
    const auto floor = [&](int64_t v) { return divide(Polynomial(v), d).quotient.constant; };
    if (b.min && b.max && floor(*b.min) == floor(*b.max)) return parts.quotient + Polynomial(floor(*b.min));
  }
  const auto divided = [&](const Polynomial& x, const Polynomial& by) {
    return math_->polynomial(pool.binary(Op::FloorDivide, build(x), build(by)));
  };
  // Where the parts might wrap around, the division stays whole.
  if (!r.fits || !parts.quotient.fits || !math_->isExact(r)) return divided(p, d);
  if (depth < kDeepestQuotient) {
    // (x // y + c) // d is (x + c*y) // (y*d).
    const Polynomial single = r - Polynomial(r.constant);
    if (const Atom* a = single.findAtom(); a && a->kind == Atom::Kind::Other) {
      const Expr e = pool[ExprId(a->index)];
      const bool divides = e.op == Op::FloorDivide || e.op == Op::Remainder;
      if (divides && math_->isExact(e.operands[0]) && math_->isExact(e.operands[1])) {
        const Polynomial x = math_->polynomial(e.operands[0]), y = math_->polynomial(e.operands[1]);
        if (e.op == Op::FloorDivide && isPositiveDivisor(y)) {
          const Polynomial whole = x + y * r.constant, by = y * d;
          if (math_->isExact(whole) && math_->isExact(by)) return parts.quotient + quotient(whole, by, depth + 1);
        }
        // (x % (n*d)) // d is (x // d) % n.
        if (e.op == Op::Remainder && r.constant == 0 && isPositiveDivisor(y)) {
          const Division n = divide(y, d);
          if (n.rest.isZero() && n.quotient.fits)
            return parts.quotient + rest(quotient(x, d, depth + 1), n.quotient, depth + 1);
        }
      }
    }
    // (g*x + y) // (g*n) is x // n, for 0 <= y < g.
    for (const Term& t : r.terms) {
      const Polynomial g = commonDivisor(t, d);
      if (g == Polynomial(1) || !isPositiveDivisor(g)) continue;
      const Division split = divide(r, g), n = divide(d, g);
      if (split.quotient.isZero() || !split.rest.fits || !n.rest.isZero() || !isWithin(split.rest, g)) continue;
      if (!math_->isExact(split.quotient)) continue;
      return parts.quotient + quotient(split.quotient, n.quotient, depth + 1);
    }
  }
  return parts.quotient + divided(r, d);
}

// p % d, for an exact p and a positive d.
Polynomial Simplifier::rest(const Polynomial& p, const Polynomial& d, int depth) {
  ExprPool& pool = program_.expressions;
  const Division parts = divide(p, d);
  Polynomial r = parts.rest;
  if (r.isZero() || isWithin(r, d)) return r;
  const auto remaining = [&](const Polynomial& x) {
    return math_->polynomial(pool.binary(Op::Remainder, build(x), build(d)));
  };
  if (!r.fits || !math_->isExact(r)) return remaining(p);
  if (d.isConstant()) {
    const Bounds b = math_->bounds(r);
    const auto floor = [&](int64_t v) { return divide(Polynomial(v), d).quotient.constant; };
    if (b.min && b.max && floor(*b.min) == floor(*b.max)) return r - d * floor(*b.min);
  }
  if (depth >= kDeepestQuotient) return remaining(r);
  // c * (x % m) is c * x, where d divides m.
  for (const Term& t : r.terms) {
    for (const Atom a : t.factors) {
      if (a.kind != Atom::Kind::Other || r.degree(a) != 1) continue;
      const Expr e = pool[ExprId(a.index)];
      if (e.op != Op::Remainder || !math_->isExact(e.operands[0]) || !math_->isExact(e.operands[1])) continue;
      if (!divide(math_->polynomial(e.operands[1]), d).rest.isZero()) continue;
      const Polynomial whole = replace(r, a, math_->polynomial(e.operands[0]));
      if (math_->isExact(whole)) return rest(whole, d, depth + 1);
    }
  }
  // (g*x + y) % (g*n) is g * (x % n) + y, for 0 <= y < g.
  for (const Term& t : r.terms) {
    const Polynomial g = commonDivisor(t, d);
    if (g == Polynomial(1) || !isPositiveDivisor(g)) continue;
    const Division split = divide(r, g), n = divide(d, g);
    if (split.quotient.isZero() || !split.rest.fits || !n.rest.isZero() || !isWithin(split.rest, g)) continue;
    if (!math_->isExact(split.quotient)) continue;
    return g * rest(split.quotient, n.quotient, depth + 1) + split.rest;
  }
  return remaining(r);
}

ExprId Simplifier::arithmetic(Op op, std::initializer_list<ExprId> operands) {
  // The polynomial of the expression as it is: large products stay products.
  const ExprId plain = program_.expressions.add({.op = op, .dtype = DType::Int64, .operands = operands});
  const ExprId made = sum(math_->polynomial(plain));
  const auto isExact = [&](ExprId id) { return math_->isExact(id); };
  if (!isExact(plain) || !std::all_of(operands.begin(), operands.end(), isExact)) math_->doubt(made);
  return made;
}

ExprId Simplifier::add(ExprId a, ExprId b) { return arithmetic(Op::Add, {a, b}); }
ExprId Simplifier::subtract(ExprId a, ExprId b) { return arithmetic(Op::Subtract, {a, b}); }
ExprId Simplifier::multiply(ExprId a, ExprId b) { return arithmetic(Op::Multiply, {a, b}); }

ExprId Simplifier::floorDivide(ExprId a, ExprId b) {
  const Polynomial p = math_->polynomial(a), d = math_->polynomial(b);
  if (math_->isExact(a) && math_->isExact(b) && isPositiveDivisor(d)) return sum(quotient(p, d, 0));
  return addFolded(program_.expressions, {.op = Op::FloorDivide, .dtype = DType::Int64, .operands = {a, b}});
}

ExprId Simplifier::remainder(ExprId a, ExprId b) {
  const Polynomial p = math_->polynomial(a), d = math_->polynomial(b);
  if (math_->isExact(a) && math_->isExact(b) && isPositiveDivisor(d)) return sum(rest(p, d, 0));
  return addFolded(program_.expressions, {.op = Op::Remainder, .dtype = DType::Int64, .operands = {a, b}});
}

ExprId Simplifier::minimum(ExprId a, ExprId b) {
  if (isAlwaysLessOrEqual(a, b)) return a;
  if (isAlwaysLessOrEqual(b, a)) return b;
  return program_.expressions.binary(Op::Minimum, a, b);
}

ExprId Simplifier::maximum(ExprId a, ExprId b) {
  if (isAlwaysLessOrEqual(a, b)) return b;
  if (isAlwaysLessOrEqual(b, a)) return a;
  return program_.expressions.binary(Op::Maximum, a, b);
}

ExprId Simplifier::compare(Op op, ExprId a, ExprId b) {
  ExprPool& pool = program_.expressions;
  const ExprId plain = addFolded(pool, {.op = op, .dtype = DType::Bool, .operands = {a, b}});
  if (pool[a].dtype != DType::Int64 || pool[plain].op == Op::Constant) return plain;
  return compareNumbers(op, a, b);
}

ExprId Simplifier::compareNumbers(Op op, ExprId a, ExprId b) {
  ExprPool& pool = program_.expressions;
  const ExprId plain = pool.binary(op, a, b);
  if (const auto value = math_->decide(plain)) return pool.boolean(*value);
  if (!math_->isExact(a) || !math_->isExact(b)) return plain;
  // As positive terms on both sides: 0 <= i - 2 is 2 <= i, and 4*i < 4*n is i < n.
  Polynomial p = math_->polynomial(b) - math_->polynomial(a);
  if (op == Op::Less) p = p - Polynomial(1);
  const uint64_t g = p.commonFactor();
  if (!p.fits || g == 0 || g > INT64_MAX) return plain;
  const bool isOrder = op == Op::Less || op == Op::LessEqual;
  for (Term& t : p.terms) t.coefficient /= static_cast<int64_t>(g);
  p.constant = divide(Polynomial(p.constant), Polynomial(static_cast<int64_t>(g))).quotient.constant;
  Polynomial left, right;
  for (const Term& t : p.terms)
    if (t.coefficient < 0)
      left = left - Polynomial::term(t);
    else
      right = right + Polynomial::term(t);
  Op made = op;
  if (!isOrder) {
    // left == right + constant; an equation of one side stands with the number on its right.
    if (left.isZero()) {
      std::swap(left, right);
      p.constant = -p.constant;
    }
    (p.constant < 0 ? left : right).constant = p.constant < 0 ? -p.constant : p.constant;
  } else if (left.isZero()) {
    made = Op::LessEqual;  // -constant <= right
    left.constant = -p.constant;
  } else {
    made = Op::Less;  // left < right + constant + 1
    const Polynomial limit = Polynomial(p.constant) + Polynomial(1);
    if (!limit.fits) return plain;
    if (limit.constant < 0)
      left.constant = -limit.constant;
    else
      right.constant = limit.constant;
    // A number on the right of a single side may be negative.
    if (right.isConstant() && left.constant != 0) {
      right.constant = -left.constant;
      left.constant = 0;
    }
  }
  if (!left.fits || !right.fits || left.constant == INT64_MIN || right.constant == INT64_MIN || !math_->isExact(left) ||
      !math_->isExact(right))
    return plain;
  const ExprId l = build(left), r = build(right);
  // i // 4 < 2 is i < 8, and 2 <= i // 4 is 8 <= i.
  const bool isBelow = made == Op::Less && right.isConstant(), isAbove = made == Op::LessEqual && left.isConstant();
  const Expr quotient = pool[isBelow ? l : r];
  const int64_t* divisor = quotient.op == Op::FloorDivide ? pool.findInteger(quotient.operands[1]) : nullptr;
  int64_t limit = isBelow ? right.constant : left.constant;
  if ((isBelow || isAbove) && divisor && *divisor > 0 && !__builtin_mul_overflow(limit, *divisor, &limit)) {
    const ExprId dividend = quotient.operands[0], number = integer(limit);
    return isBelow ? compareNumbers(made, dividend, number) : compareNumbers(made, number, dividend);
  }
  return pool.binary(made, l, r);
}

ExprId Simplifier::logicalAnd(ExprId a, ExprId b) {
  ExprPool& pool = program_.expressions;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    std::vector<Polynomial> facts;
    math_->collectFacts(one, true, facts);
    if (facts.empty()) continue;
    if (const auto value = math_->decide(other, facts)) return *value ? one : pool.boolean(false);
  }
  return addFolded(pool, {.op = Op::And, .dtype = DType::Bool, .operands = {a, b}});
}

ExprId Simplifier::select(ExprId condition, ExprId then, ExprId otherwise) {
  ExprPool& pool = program_.expressions;
  // A choice inside of a choice that the outer one decides.
  const auto decided = [&](ExprId branch, bool value) {
    std::vector<Polynomial> facts;
    for (bool collected = false; pool[branch].op == Op::Select; collected = true) {
      if (!collected) math_->collectFacts(condition, value, facts);
      const Expr& inner = pool[branch];
      const auto choice =
          inner.operands[0] == condition ? std::optional(value) : math_->decide(inner.operands[0], facts);
      if (!choice) break;
      branch = inner.operands[*choice ? 1 : 2];
    }
    return branch;
  };
  const Expr made{.op = Op::Select,
                  .dtype = pool[then].dtype,
                  .operands = {condition, decided(then, true), decided(otherwise, false)}};
  return addFolded(pool, made);
}

// An expression of simplified operands.
ExprId Simplifier::rebuilt(const Expr& e) {
  ExprPool& pool = program_.expressions;
  const auto operand = [&](size_t i) { return e.operands[i]; };
  if (e.dtype == DType::Int64) {
    switch (e.op) {
      case Op::Constant:
      case Op::Range:
      case Op::Size:
        return build(math_->polynomial(pool.add(e)));
      case Op::Negate:
        return arithmetic(Op::Negate, {operand(0)});
      case Op::Add:
        return add(operand(0), operand(1));
      case Op::Subtract:
        return subtract(operand(0), operand(1));
      case Op::Multiply:
        return multiply(operand(0), operand(1));
      case Op::FloorDivide:
        return floorDivide(operand(0), operand(1));
      case Op::Remainder:
        return remainder(operand(0), operand(1));
      case Op::Minimum:
        return minimum(operand(0), operand(1));
      case Op::Maximum:
        return maximum(operand(0), operand(1));
      case Op::CheckedIndex:
        if (math_->isExact(operand(0)) && math_->isExact(operand(1)) && isAlwaysLessOrEqual(integer(0), operand(0)) &&
            isAlwaysLess(operand(0), operand(1)))
          return operand(0);
        break;
      case Op::CheckedDivisor: {
        const Bounds b = math_->bounds(operand(0));
        if ((b.min && *b.min > 0) || (b.max && *b.max < 0)) return operand(0);
        break;
      }
      default:
        break;
    }
  }
  if (e.op == Op::Select) return select(operand(0), operand(1), operand(2));
  if (isComparison(e.op)) return compare(e.op, operand(0), operand(1));
  if (e.op == Op::And && e.dtype == DType::Bool) return logicalAnd(operand(0), operand(1));
  return addFolded(pool, e);
}

// Rebuilds what `done` lacks; `leaf` says what a range becomes.
template <class Leaf>
ExprId Simplifier::rewrite(ExprId root, std::unordered_map<ExprId, ExprId>& done, const Leaf& leaf) {
  for (const ExprId id : partsInOrder(program_.expressions, root, [&](ExprId part) { return done.contains(part); })) {
    const ExprPool::MadeFor origin(program_.expressions, program_.expressions.origin(id));
    Expr e = program_.expressions[id];
    for (ExprId& o : e.operands) o = done.at(o);
    for (RangeId& r : e.ranges) {
      const Expr& to = program_.expressions[leaf(r)];
      assert(to.op == Op::Range);
      r = to.range();
    }
    ExprId made = e.op == Op::Range ? rebuilt(program_.expressions[leaf(e.range())]) : rebuilt(e);
    if (e.dtype == DType::Int64 && !program_.sizes.empty() && !math_->isIndex(id) && math_->isIndex(made))
      made = program_.expressions.add(e);
    done.emplace(id, made);
  }
  return done.at(root);
}

ExprId Simplifier::simplify(ExprId root) {
  return rewrite(root, simplified_, [&](RangeId r) { return program_.expressions.range(r); });
}

ExprId Simplifier::substitute(ExprId root, const std::unordered_map<RangeId, ExprId>& to) {
  std::unordered_map<ExprId, ExprId> done;
  return rewrite(root, done, [&](RangeId r) {
    const auto at = to.find(r);
    return at != to.end() ? at->second : program_.expressions.range(r);
  });
}

Bounds Simplifier::bounds(ExprId id) const { return math_->bounds(id); }

bool Simplifier::isAlwaysLess(ExprId a, ExprId b) const {
  return math_->isExact(a) && math_->isExact(b) &&
         math_->isNonNegative(math_->polynomial(b) - math_->polynomial(a) - Polynomial(1));
}

bool Simplifier::isAlwaysLessOrEqual(ExprId a, ExprId b) const {
  return math_->isExact(a) && math_->isExact(b) && math_->isNonNegative(math_->polynomial(b) - math_->polynomial(a));
}

}  // namespace graft::loops
