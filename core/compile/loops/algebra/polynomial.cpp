#include "core/compile/loops/algebra/polynomial.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/compile/loops/algebra/bounds.h"

namespace graft::loops {
namespace {

constexpr int kMostDivisionSteps = 256;  // of one division: a quotient has no more terms

uint64_t magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

int64_t wrappingAdd(int64_t a, int64_t b, bool& fits) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) fits = false;
  return out;
}

int64_t wrappingMultiply(int64_t a, int64_t b, bool& fits) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) fits = false;
  return out;
}

// The remaining factors, where `small` divides `large`.
bool divideFactors(const Monomial& large, const Monomial& small, Monomial& out) {
  if (!std::includes(large.begin(), large.end(), small.begin(), small.end())) return false;
  out.clear();
  std::set_difference(large.begin(), large.end(), small.begin(), small.end(), std::back_inserter(out));
  return true;
}

// Products of many atoms first, then by the atoms: an order that a division comes to an end in.
bool isLeading(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return a.factors < b.factors;
}

// Terms of equal factors, which stand side by side, become one.
void mergeTerms(Polynomial& p) {
  size_t kept = 0;
  for (size_t i = 0; i < p.terms.size();) {
    Term merged = std::move(p.terms[i]);
    for (++i; i < p.terms.size() && p.terms[i].factors == merged.factors; ++i)
      merged.coefficient = wrappingAdd(merged.coefficient, p.terms[i].coefficient, p.fits);
    if (merged.coefficient != 0) p.terms[kept++] = std::move(merged);
  }
  p.terms.resize(kept);
}

}  // namespace

Polynomial Polynomial::atom(Atom a) { return term({{a}, 1}); }

Polynomial Polynomial::term(Term t) {
  Polynomial p;
  if (t.factors.empty()) {
    p.constant = t.coefficient;
  } else if (t.coefficient != 0) {
    p.terms.push_back(std::move(t));
  }
  return p;
}

const Atom* Polynomial::findAtom() const {
  if (constant != 0 || terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) return nullptr;
  return &terms[0].factors[0];
}

int64_t Polynomial::coefficient(const Monomial& factors) const {
  const auto at = std::lower_bound(terms.begin(), terms.end(), factors,
                                   [](const Term& t, const Monomial& m) { return t.factors < m; });
  return at != terms.end() && at->factors == factors ? at->coefficient : 0;
}

size_t Polynomial::degree(Atom a) const {
  size_t most = 0;
  for (const Term& t : terms)
    most = std::max(most, static_cast<size_t>(std::count(t.factors.begin(), t.factors.end(), a)));
  return most;
}

uint64_t Polynomial::commonFactor() const {
  uint64_t g = 0;
  for (const Term& t : terms) g = std::gcd(g, magnitude(t.coefficient));
  return g;
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  out.fits = a.fits && b.fits;
  out.constant = wrappingAdd(a.constant, b.constant, out.fits);
  out.terms.reserve(a.terms.size() + b.terms.size());
  std::merge(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), std::back_inserter(out.terms),
             [](const Term& x, const Term& y) { return x.factors < y.factors; });
  mergeTerms(out);
  return out;
}

Polynomial operator*(const Polynomial& a, int64_t n) {
  Polynomial out = a;
  out.constant = wrappingMultiply(a.constant, n, out.fits);
  for (Term& t : out.terms) t.coefficient = wrappingMultiply(t.coefficient, n, out.fits);
  std::erase_if(out.terms, [](const Term& t) { return t.coefficient == 0; });
  return out;
}

Polynomial operator-(const Polynomial& a) { return a * -1; }
Polynomial operator-(const Polynomial& a, const Polynomial& b) { return a + b * -1; }

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  if (b.isConstant()) {
    Polynomial out = a * b.constant;
    out.fits = out.fits && b.fits;
    return out;
  }
  Polynomial out = b * a.constant;
  out.fits = out.fits && a.fits;
  Polynomial products;
  for (const Term& x : a.terms) {
    if (b.constant != 0) products.terms.push_back({x.factors, wrappingMultiply(x.coefficient, b.constant, out.fits)});
    for (const Term& y : b.terms) {
      Monomial factors;
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), std::back_inserter(factors));
      products.terms.push_back({std::move(factors), wrappingMultiply(x.coefficient, y.coefficient, out.fits)});
    }
  }
  std::sort(products.terms.begin(), products.terms.end(),
            [](const Term& x, const Term& y) { return x.factors < y.factors; });
  mergeTerms(products);
  return out + products;
}

Division divide(const Polynomial& p, const Polynomial& divisor) {
  Division out;
  out.quotient.fits = out.rest.fits = p.fits && divisor.fits;
  if (divisor.isConstant()) {
    const int64_t d = divisor.constant;
    if (d == -1) return {p * -1, Polynomial(0)};
    for (const Term& t : p.terms)
      if (t.coefficient % d == 0)
        out.quotient.terms.push_back({t.factors, t.coefficient / d});
      else
        out.rest.terms.push_back(t);
    out.quotient.constant = floorDivided(p.constant, d);
    out.rest.constant = p.constant - out.quotient.constant * d;
    return out;
  }
  const Term& leading = *std::min_element(divisor.terms.begin(), divisor.terms.end(), isLeading);
  out.rest = p;
  bool found = true;
  for (int step = 0; found && step < kMostDivisionSteps; ++step) {
    found = false;
    for (const Term& t : out.rest.terms) {
      Monomial factors;
      if (leading.coefficient == -1 || t.coefficient % leading.coefficient != 0 ||
          !divideFactors(t.factors, leading.factors, factors))
        continue;
      const Polynomial part = Polynomial::term({std::move(factors), t.coefficient / leading.coefficient});
      out.quotient = out.quotient + part;
      out.rest = out.rest - part * divisor;
      found = true;
      break;
    }
  }
  return out;
}

Polynomial commonDivisor(const Term& term, const Polynomial& other) {
  Monomial factors = term.factors;
  uint64_t number = std::gcd(magnitude(term.coefficient), magnitude(other.constant));
  if (other.constant != 0) factors.clear();
  for (const Term& t : other.terms) {
    Monomial common;
    std::set_intersection(factors.begin(), factors.end(), t.factors.begin(), t.factors.end(),
                          std::back_inserter(common));
    factors = std::move(common);
    number = std::gcd(number, magnitude(t.coefficient));
  }
  if (number > INT64_MAX) number = uint64_t{1} << 62;  // it was 2^63
  return Polynomial::term({std::move(factors), static_cast<int64_t>(number)});
}

Linear splitLinear(const Polynomial& p, Atom a) {
  Linear out;
  out.factor.fits = out.rest.fits = p.fits;
  out.rest.constant = p.constant;
  for (const Term& t : p.terms) {
    const auto at = std::find(t.factors.begin(), t.factors.end(), a);
    if (at == t.factors.end()) {
      out.rest.terms.push_back(t);
      continue;
    }
    Monomial factors = t.factors;
    factors.erase(factors.begin() + (at - t.factors.begin()));
    if (factors.empty())
      out.factor.constant = t.coefficient;
    else
      out.factor.terms.push_back({std::move(factors), t.coefficient});
  }
  std::sort(out.factor.terms.begin(), out.factor.terms.end(),
            [](const Term& x, const Term& y) { return x.factors < y.factors; });
  return out;
}

Polynomial replace(const Polynomial& p, Atom a, const Polynomial& by) {
  if (p.degree(a) == 0) return p;
  const Linear split = splitLinear(p, a);
  return replace(split.factor, a, by) * by + split.rest;
}

}  // namespace graft::loops
