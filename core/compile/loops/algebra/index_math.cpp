#include "core/compile/loops/algebra/index_math.h"

#include <algorithm>
#include <utility>

namespace graft::loops {
namespace {

// Larger polynomials are left alone: an index that people or lowerings make has a handful of terms.
constexpr size_t kMostTerms = 32;
constexpr size_t kHighestDegree = 12;
constexpr int kProofSteps = 300;
constexpr int kDeepestProof = 24;
constexpr int64_t kLargestIndex = int64_t{1} << 60;

bool isIndexNumber(int64_t value) { return value > -kLargestIndex && value < kLargestIndex; }

// To i64, of a number that its dtype bounds, or of a constant.
bool isIndexCast(const ExprPool& pool, const Expr& e) {
  const Expr& from = pool[e.operands[0]];
  return from.op == Op::Constant || dtypeBounds(from.dtype).max;
}

// The operands whose numbers decide the number of the expression.
std::span<const ExprId> numberOperands(const Expr& e) {
  const std::span<const ExprId> all(e.operands);
  switch (e.op) {
    case Op::Negate:
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod:
    case Op::Minimum:
    case Op::Maximum:
    case Op::Absolute:
    case Op::And:
      return all;
    case Op::Select:
    case Op::CheckedIndex:
      return all.subspan(1);
    default:
      return {};
  }
}

}  // namespace

const IndexMath::Known& IndexMath::known(ExprId root) {
  if (const auto at = known_.find(root); at != known_.end()) return at->second;
  std::vector<ExprId> open{root};
  while (!open.empty()) {
    const ExprId id = open.back();
    if (known_.contains(id)) {
      open.pop_back();
      continue;
    }
    const size_t before = open.size();
    const Expr& e = program_.expressions[id];
    const auto need = [&](ExprId part) {
      if (!known_.contains(part)) open.push_back(part);
    };
    if (e.op == Op::Range) need(program_.range(e.range()).extent);
    for (const ExprId part : numberOperands(e)) need(part);
    if (open.size() > before) continue;
    open.pop_back();
    known_.emplace(id, learn(id));
  }
  return known_.at(root);
}

IndexMath::Known IndexMath::learn(ExprId id) {
  const Expr& e = program_.expressions[id];
  Known k;
  if (e.dtype != DType::Int64) {
    k.bounds = dtypeBounds(e.dtype);
    if (const int64_t* n = program_.expressions.findInteger(id)) k.bounds = {*n, *n};
    return k;
  }
  // An expression that is an atom has the exact value of itself.
  const auto setAtom = [&] {
    k.polynomial = Polynomial::atom({Atom::Kind::Other, id.index});
    k.isExact = true;
    k.bounds = learnBounds(id);
  };
  const auto setSum = [&](const Polynomial& p) {
    const bool isLarge = p.terms.size() > kMostTerms || std::any_of(p.terms.begin(), p.terms.end(), [](const Term& t) {
                           return t.factors.size() > kHighestDegree;
                         });
    if (isLarge) {
      setAtom();
      return;
    }
    // Data that cancel out still count, or the rest would pass for an index.
    if (!k.makeup.isIndex && makeup(p).isIndex && !program_.sizes.empty()) {
      setAtom();
      return;
    }
    k.polynomial = p;
    // By contract only where nothing but ranges and sizes went in: x - x + s0 may have wrapped around on its way.
    k.isExact = p.fits && (isBounded(p) || (k.makeup.isIndex && k.makeup.isSized));
    if (k.isExact) k.bounds = interval(p).bounds;
  };
  switch (e.op) {
    case Op::Constant: {
      const int64_t value = static_cast<int64_t>(e.bits);
      k.polynomial = Polynomial(value);
      k.makeup.isIndex = isIndexNumber(value);
      k.bounds = {value, value};
      return k;
    }
    case Op::Range: {
      const Known& extent = known(program_.range(e.range()).extent);
      k.makeup = {true, extent.makeup.isSized, true};
      // A range of one value is that value.
      const bool isOne = extent.bounds.max && *extent.bounds.max <= 1;
      k.polynomial = isOne ? Polynomial(0) : Polynomial::atom({Atom::Kind::Range, e.index});
      k.bounds = atomBounds({Atom::Kind::Range, e.index});
      return k;
    }
    case Op::Size: {
      const Size& s = program_.sizes[e.index];
      k.makeup = {true, true, false};
      k.polynomial = s.max == s.min ? Polynomial(s.min) : Polynomial::atom({Atom::Kind::Size, e.index});
      k.bounds = {s.min, s.max};
      return k;
    }
    default:
      break;
  }
  const std::span<const ExprId> parts = numberOperands(e);
  k.makeup.isIndex = !parts.empty() && e.op != Op::Fmod && e.op != Op::And;
  if (e.op == Op::Cast) k.makeup.isIndex = isIndexCast(program_.expressions, e);
  for (const ExprId part : parts) {
    const Known& p = known_.at(part);
    k.makeup.isIndex = k.makeup.isIndex && p.makeup.isIndex;
    k.makeup.isSized = k.makeup.isSized || p.makeup.isSized;
    k.makeup.hasRange = k.makeup.hasRange || p.makeup.hasRange;
  }
  const auto part = [&](size_t i) -> const Polynomial& { return known_.at(e.operands[i]).polynomial; };
  switch (e.op) {
    case Op::Negate:
      setSum(-part(0));
      break;
    case Op::Add:
      setSum(part(0) + part(1));
      break;
    case Op::Subtract:
      setSum(part(0) - part(1));
      break;
    case Op::Multiply:
      if (part(0).terms.size() * part(1).terms.size() > kMostTerms)
        setAtom();
      else
        setSum(part(0) * part(1));
      break;
    default:
      setAtom();
  }
  return k;
}

Bounds IndexMath::learnBounds(ExprId id) {
  const Expr& e = program_.expressions[id];
  const auto of = [&](size_t i) { return known(e.operands[i]).bounds; };
  switch (e.op) {
    case Op::Cast: {
      const DType from = program_.expressions[e.operands[0]].dtype;
      return dtypeBounds(from);
    }
    case Op::FloorDivide:
      return quotientBounds(of(0), of(1));
    case Op::Remainder:
      return remainderBounds(of(0), of(1));
    case Op::Fmod: {
      const Bounds a = of(0), b = of(1);
      if (!a.min || *a.min < 0 || !b.min || *b.min <= 0) return {};
      return remainderBounds(a, b);
    }
    case Op::Minimum:
      return minimumBounds(of(0), of(1));
    case Op::Maximum:
      return maximumBounds(of(0), of(1));
    case Op::Absolute:
      return absoluteBounds(of(0));
    case Op::Select:
      return eitherBounds(of(1), of(2));
    case Op::And: {
      const Bounds a = of(0), b = of(1);
      // The bits of a number that is not negative bound the result, whatever the other one is.
      Bounds out;
      for (const Bounds& x : {a, b})
        if (x.min && *x.min >= 0) out = {0, minimumBounds(out, x).max};
      return out;
    }
    case Op::CheckedIndex:
      return rangeBounds(of(1));
    case Op::Sign:
      return {-1, 1};
    case Op::Reduce:
      if (isPlace(e.reduce)) return {0, std::nullopt};
      return {};
    default:
      return {};
  }
}

const Polynomial& IndexMath::polynomial(ExprId id) { return known(id).polynomial; }
bool IndexMath::isExact(ExprId id) { return known(id).isExact; }
bool IndexMath::isIndex(ExprId id) { return known(id).makeup.isIndex; }
Bounds IndexMath::bounds(ExprId id) { return known(id).bounds; }
Bounds IndexMath::bounds(const Polynomial& p) { return interval(p).bounds; }

bool IndexMath::isExact(const Polynomial& p) {
  if (!p.fits) return false;
  if (isBounded(p)) return true;
  const Makeup m = makeup(p);
  return m.isIndex && m.isSized;
}

bool IndexMath::isBounded(const Polynomial& p) {
  const Bounds b = interval(p).bounds;
  return b.min && b.max;
}

void IndexMath::doubt(ExprId id) {
  const Polynomial p = polynomial(id);
  if (p.isConstant() || p.findAtom() != nullptr || isBounded(p)) return;
  Known& k = known_.at(id);
  k.isExact = false;
  k.bounds = {};
}

IndexMath::Makeup IndexMath::makeup(Atom a) {
  switch (a.kind) {
    case Atom::Kind::Range:
      return {true, known(program_.ranges[a.index].extent).makeup.isSized, true};
    case Atom::Kind::Size:
      return {true, true, false};
    default:
      return known(ExprId(a.index)).makeup;
  }
}

IndexMath::Makeup IndexMath::makeup(const Polynomial& p) {
  Makeup out{isIndexNumber(p.constant), false, false};
  for (const Term& t : p.terms) {
    out.isIndex = out.isIndex && isIndexNumber(t.coefficient);
    for (const Atom a : t.factors) {
      const Makeup m = makeup(a);
      out = {out.isIndex && m.isIndex, out.isSized || m.isSized, out.hasRange || m.hasRange};
    }
  }
  return out;
}

Bounds IndexMath::atomBounds(Atom a) {
  switch (a.kind) {
    case Atom::Kind::Range:
      return rangeBounds(known(program_.ranges[a.index].extent).bounds);
    case Atom::Kind::Size:
      return {program_.sizes[a.index].min, program_.sizes[a.index].max};
    default:
      return known(ExprId(a.index)).bounds;
  }
}

IndexMath::Interval IndexMath::interval(const Polynomial& p) {
  Interval out{{p.constant, p.constant}, !p.fits};
  for (const Term& t : p.terms) {
    Bounds product{1, 1};
    for (const Atom a : t.factors) product = multiplyBounds(product, atomBounds(a), out.overflows);
    product = scaleBounds(product, t.coefficient, out.overflows);
    out.bounds = addBounds(out.bounds, product, out.overflows);
  }
  return out;
}

void IndexMath::collectFacts(ExprId root, bool rootValue, std::vector<Polynomial>& facts) {
  std::vector<std::pair<ExprId, bool>> open{{root, rootValue}};
  while (!open.empty() && facts.size() < 64) {
    const auto [id, value] = open.back();
    open.pop_back();
    const Expr& e = program_.expressions[id];
    if (e.op == Op::Not && e.dtype == DType::Bool) {
      open.emplace_back(e.operands[0], !value);
    } else if (e.dtype == DType::Bool && (value ? e.op == Op::And : e.op == Op::Or)) {
      open.emplace_back(e.operands[1], value);
      open.emplace_back(e.operands[0], value);
    } else if (isComparison(e.op) && program_.expressions[e.operands[0]].dtype == DType::Int64) {
      if (!isExact(e.operands[0]) || !isExact(e.operands[1])) continue;
      const Polynomial difference = polynomial(e.operands[1]) - polynomial(e.operands[0]);
      const Polynomial one(1);
      if (e.op == Op::Less) {
        facts.push_back(value ? difference - one : -difference);
      } else if (e.op == Op::LessEqual) {
        facts.push_back(value ? difference : -difference - one);
      } else if ((e.op == Op::Equal) == value) {
        facts.push_back(difference);
        facts.push_back(-difference);
      }
    }
  }
  std::erase_if(facts, [](const Polynomial& p) { return !p.fits; });
}

std::optional<bool> IndexMath::decide(ExprId condition, std::span<const Polynomial> facts) {
  const Expr& e = program_.expressions[condition];
  if (e.dtype != DType::Bool) return std::nullopt;
  if (e.op == Op::Constant) return e.bits != 0;
  if (e.op == Op::Not) {
    const auto value = decide(e.operands[0], facts);
    return value ? std::optional(!*value) : value;
  }
  if (e.op == Op::And || e.op == Op::Or) {
    const bool decisive = e.op == Op::Or;  // this value of one operand decides
    const auto a = decide(e.operands[0], facts);
    if (a == decisive) return a;
    const auto b = decide(e.operands[1], facts);
    if (b == decisive) return b;
    return a && b ? a : std::nullopt;
  }
  if (!isComparison(e.op) || program_.expressions[e.operands[0]].dtype != DType::Int64) return std::nullopt;
  if (!isExact(e.operands[0]) || !isExact(e.operands[1])) return std::nullopt;
  const Polynomial difference = polynomial(e.operands[1]) - polynomial(e.operands[0]);
  const Polynomial one(1);
  switch (e.op) {
    case Op::Less:
      if (isNonNegative(difference - one, facts)) return true;
      if (isNonNegative(-difference, facts)) return false;
      return std::nullopt;
    case Op::LessEqual:
      if (isNonNegative(difference, facts)) return true;
      if (isNonNegative(-difference - one, facts)) return false;
      return std::nullopt;
    default: {
      const bool isEqual = e.op == Op::Equal;
      if (difference.fits && difference.isZero()) return isEqual;
      const uint64_t g = difference.commonFactor();
      if (difference.fits && g > 1 && g <= INT64_MAX && difference.constant % static_cast<int64_t>(g) != 0)
        return !isEqual;
      if (isNonNegative(difference - one, facts) || isNonNegative(-difference - one, facts)) return !isEqual;
      if (isNonNegative(difference, facts) && isNonNegative(-difference, facts)) return isEqual;
      return std::nullopt;
    }
  }
}

bool IndexMath::isNonNegative(const Polynomial& p, std::span<const Polynomial> facts) {
  budget_ = kProofSteps;
  if (prove(p, {}, 0)) return true;
  if (facts.empty()) return false;
  budget_ = kProofSteps;
  return prove(p, {facts.begin(), facts.end()}, 0);
}

bool IndexMath::prove(Polynomial p, const std::vector<Polynomial>& facts, int depth) {
  if (!p.fits || p.terms.size() > kMostTerms || depth > kDeepestProof || budget_-- <= 0 || stepsLeft_-- <= 0)
    return false;
  if (p.isConstant()) return p.constant >= 0;
  // g*x + c >= 0 is x + floor(c/g) >= 0.
  const uint64_t g = p.commonFactor();
  if (g > 1 && g <= INT64_MAX) {
    const auto n = static_cast<int64_t>(g);
    for (Term& t : p.terms) t.coefficient /= n;
    p.constant = floorDivided(p.constant, n);
  }
  const Bounds b = interval(p).bounds;
  if (b.min && *b.min >= 0) return true;
  if (b.max && *b.max < 0 && facts.empty()) return false;
  if (proveByFacts(p, facts, depth)) return true;
  const std::vector<Atom> hardest = hardestAtoms(p);
  if (hardest.empty()) return proveBySizes(p, facts, depth);
  return std::any_of(hardest.begin(), hardest.end(), [&](Atom a) { return proveByAtom(p, a, facts, depth); });
}

// p is a whole number, so p >= 0 where n*p > -n. That follows from f >= 0 and n*p - m*f >= 1 - n, for positive n and m.
// They are chosen so that a term vanishes.
bool IndexMath::proveByFacts(const Polynomial& p, const std::vector<Polynomial>& facts, int depth) {
  for (size_t i = 0; i < facts.size(); ++i) {
    for (const Term& t : facts[i].terms) {
      const int64_t c = p.coefficient(t.factors);
      if (c == 0 || (c < 0) != (t.coefficient < 0) || c == INT64_MIN || t.coefficient == INT64_MIN) continue;
      std::vector<Polynomial> others = facts;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const int64_t n = std::abs(t.coefficient);
      if (prove(p * n - facts[i] * std::abs(c) + Polynomial(n - 1), others, depth + 1)) return true;
    }
  }
  return false;
}

// What depends on other things is replaced by them: first expressions of ranges, then ranges, whose extents are
// expressions of sizes, then those. Sizes remain. Of several expressions of ranges any may come first, and not each
// order leads to a proof: from x // 16 * 48 + x % 16 - 80, where x is at least 32, the remainder has to go first.
std::vector<Atom> IndexMath::hardestAtoms(const Polynomial& p) {
  constexpr int kOfRanges = 3;
  const auto rank = [&](Atom a) {
    const int kind = a.kind == Atom::Kind::Size    ? 0
                     : a.kind == Atom::Kind::Range ? 2
                     : makeup(a).hasRange          ? kOfRanges
                                                   : 1;
    // An expression of data may contain anything: before all others.
    return std::pair(a.kind == Atom::Kind::Other && !makeup(a).isIndex ? 4 : kind, a.index);
  };
  std::vector<Atom> out;
  for (const Term& t : p.terms)
    for (const Atom a : t.factors)
      if (a.kind != Atom::Kind::Size && std::find(out.begin(), out.end(), a) == out.end()) out.push_back(a);
  std::sort(out.begin(), out.end(), [&](Atom a, Atom b) { return rank(a) > rank(b); });
  size_t kept = out.empty() ? 0 : 1;
  while (kept > 0 && kept < out.size() && rank(out[0]).first == kOfRanges && rank(out[kept]).first == kOfRanges) ++kept;
  out.resize(kept);
  return out;
}

bool IndexMath::proveByAtom(const Polynomial& p, Atom a, const std::vector<Polynomial>& facts, int depth) {
  if (p.degree(a) > 1) return false;
  const Linear split = splitLinear(p, a);
  const Polynomial& factor = split.factor;
  const Polynomial& rest = split.rest;
  const bool isUp = factor.isConstant() && factor.constant > 0;
  const bool isDown = factor.isConstant() && factor.constant < 0;
  std::vector<Polynomial> more = facts;
  const auto check = [&](const Polynomial& q) { return prove(q, more, depth + 1); };
  const auto with = [&](const Polynomial& value) { return check(factor * value + rest); };
  // No divisor is 0.
  const auto isPositiveDivisor = [&](const Polynomial& d) {
    if (!check(d)) return false;
    if (!d.isConstant()) more.push_back(d - Polynomial(1));
    return true;
  };
  // The polynomial is linear in the atom, so it is least at one of its ends.
  const auto between = [&](const Polynomial& low, const Polynomial& high) {
    return (isDown || with(low)) && (isUp || with(high));
  };
  const Polynomial one(1);
  if (a.kind == Atom::Kind::Range) {
    const ExprId extent = program_.ranges[a.index].extent;
    if (!isExact(extent)) return false;
    const Polynomial high = polynomial(extent) - one;
    // Where the range has a value, its extent is not 0.
    if (!high.isConstant()) more.push_back(high);
    return between(Polynomial(0), high);
  }
  const ExprId id(a.index);
  const Expr& e = program_.expressions[id];
  const auto operand = [&](size_t i) -> const Polynomial& { return polynomial(e.operands[i]); };
  const auto areExact = [&](size_t first) {
    return std::all_of(e.operands.begin() + static_cast<std::ptrdiff_t>(first), e.operands.end(),
                       [&](ExprId o) { return isExact(o); });
  };
  switch (e.op) {
    case Op::FloorDivide: {
      if (!areExact(0)) break;
      const Polynomial &x = operand(0), &d = operand(1);
      if (!isPositiveDivisor(d)) break;
      // x - (d - 1) <= d * (x // d) <= x. The sum is a whole number, so it is enough that d times it is more than -d.
      const Polynomial scaled = rest * d + d - one;
      if (isDown) return check(factor * x + scaled);
      if (isUp) return check(factor * (x - d + one) + scaled) || (check(x) && check(rest));
      return check(factor * (x - d + one) + scaled) && check(factor * x + scaled);
    }
    case Op::Remainder: {
      if (!areExact(1)) break;
      const Polynomial& d = operand(1);
      if (!isPositiveDivisor(d)) break;
      if (between(Polynomial(0), d - one)) return true;
      // It is no more than its dividend where that is not negative.
      return isDown && isExact(e.operands[0]) && check(operand(0)) && with(operand(0));
    }
    case Op::CheckedIndex: {
      if (!areExact(1)) break;
      const Polynomial& size = operand(1);
      return check(size - one) && between(Polynomial(0), size - one);
    }
    case Op::Minimum:
    case Op::Maximum: {
      if (!areExact(0)) break;
      const bool isEither = e.op == Op::Minimum ? isDown : isUp;
      return isEither ? with(operand(0)) || with(operand(1)) : with(operand(0)) && with(operand(1));
    }
    case Op::Select: {
      if (!isExact(e.operands[1]) || !isExact(e.operands[2])) break;
      for (const bool value : {true, false}) {
        std::vector<Polynomial> chosen = facts;
        collectFacts(e.operands[0], value, chosen);
        if (!prove(factor * operand(value ? 1 : 2) + rest, chosen, depth + 1)) return false;
      }
      return true;
    }
    default:
      break;
  }
  const Bounds b = atomBounds(a);
  if ((!isDown && !b.min) || (!isUp && !b.max)) return false;
  return between(Polynomial(b.min.value_or(0)), Polynomial(b.max.value_or(0)));
}

// With each size written as its minimum and something that is not negative, a polynomial without negative coefficients
// is not negative.
bool IndexMath::proveBySizes(const Polynomial& p, const std::vector<Polynomial>& facts, int depth) {
  Polynomial shifted = p;
  std::vector<int64_t> leasts;
  for (uint32_t i = 0; i < program_.sizes.size(); ++i) {
    const Atom a{Atom::Kind::Size, i};
    int64_t& least = leasts.emplace_back(program_.sizes[i].min);
    if (shifted.degree(a) == 0) continue;
    // A fact of this size alone may say more: n*s - c >= 0.
    for (const Polynomial& f : facts)
      if (f.terms.size() == 1 && f.terms[0].factors == Monomial{a} && f.terms[0].coefficient > 0 &&
          f.constant != INT64_MIN)
        least = std::max(least, -floorDivided(f.constant, f.terms[0].coefficient));
    shifted = replace(shifted, a, Polynomial::atom(a) + Polynomial(least));
  }
  if (!shifted.fits) return false;
  if (shifted.constant >= 0 &&
      std::all_of(shifted.terms.begin(), shifted.terms.end(), [](const Term& t) { return t.coefficient > 0; }))
    return true;
  // Otherwise at both ends of a size that has two.
  for (uint32_t i = 0; i < program_.sizes.size(); ++i) {
    const Size& s = program_.sizes[i];
    const Atom a{Atom::Kind::Size, i};
    if (!s.max || p.degree(a) != 1) continue;
    return prove(replace(p, a, Polynomial(leasts[i])), facts, depth + 1) &&
           prove(replace(p, a, Polynomial(*s.max)), facts, depth + 1);
  }
  return false;
}

}  // namespace graft::loops
