// Polynomial: what the arithmetic of an index is, as a sum of products. i0*64 + (i1 + 2)*s0 is 64*i0 + s0*i1 + 2*s0.
// Equal sums are equal polynomials, however they were spelled.
//
//   Polynomial p = Polynomial::atom(i) * Polynomial(64) + Polynomial::atom(j);
//   auto [quotient, rest] = divide(p, Polynomial(64));   // i and j
//
// Coefficients wrap around as 64-bit integers do, so a polynomial always has the value of its expression modulo 2^64;
// `fits` says whether none has wrapped.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace graft::loops {

/// What a polynomial is made of: a range, a size, or an expression that is neither sum nor product.
struct Atom {
  enum class Kind : uint8_t { Range, Other, Size };
  Kind kind = Kind::Range;
  uint32_t index = 0;                             ///< of the RangeId, ExprId or SizeId
  auto operator<=>(const Atom&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

/// A product of atoms, sorted; one of several occurrences is a power. Empty: 1.
using Monomial = std::vector<Atom>;

struct Term {
  Monomial factors;  ///< not empty
  int64_t coefficient = 0;
  bool operator==(const Term&) const = default;
};

struct Polynomial {
  std::vector<Term> terms;  ///< sorted by their factors; no coefficient is 0
  int64_t constant = 0;
  bool fits = true;  ///< no coefficient has left 64 bits

  Polynomial() = default;
  explicit Polynomial(int64_t value) : constant(value) {}
  static Polynomial atom(Atom a);
  static Polynomial term(Term t);

  bool isConstant() const { return terms.empty(); }
  bool isZero() const { return terms.empty() && constant == 0; }
  /// The atom, where the polynomial is one and nothing else.
  const Atom* findAtom() const;
  /// The coefficient of a product; 0 where it does not occur.
  int64_t coefficient(const Monomial&) const;
  /// How often an atom occurs in the product where it occurs most often.
  size_t degree(Atom) const;
  /// The greatest number that divides all coefficients but the constant; 0 of a constant.
  uint64_t commonFactor() const;
  bool operator==(const Polynomial&) const = default;
};

Polynomial operator+(const Polynomial&, const Polynomial&);
Polynomial operator-(const Polynomial&, const Polynomial&);
Polynomial operator*(const Polynomial&, const Polynomial&);
Polynomial operator*(const Polynomial&, int64_t);
Polynomial operator-(const Polynomial&);

/// p = quotient * divisor + rest. The quotient takes what is divisible; where the divisor is a number, the rest's
/// constant is from 0 to below it. The divisor must not be 0.
struct Division {
  Polynomial quotient, rest;
};
Division divide(const Polynomial& p, const Polynomial& divisor);

/// The greatest product, with its coefficient, that divides the term and all of the other polynomial's.
Polynomial commonDivisor(const Term&, const Polynomial&);

/// p = factor * atom + rest, for an atom that occurs at most once in each product.
struct Linear {
  Polynomial factor, rest;
};
Linear splitLinear(const Polynomial& p, Atom);
/// With a polynomial in the place of an atom.
Polynomial replace(const Polynomial& p, Atom, const Polynomial& by);

}  // namespace graft::loops
