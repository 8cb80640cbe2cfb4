// Symbolic integers as polynomials, so that sizes compare by meaning: "s0*2 + 2" equals "2*(s0 + 1)".
//
//   auto a = Polynomial::parse("2*s0 + 1");
//   (*a - Polynomial::constant(1)).text() == "2*s0"
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// A sum of products of atoms ("s0", "size(x,1)", "floor(s0,2)") with integer factors, in one canonical order.
class Polynomial {
 public:
  static Polynomial constant(int64_t n);
  static Polynomial atom(std::string name);
  /// A size expression (core/ir/size_expression.h) of any names. Divisions that leave a remainder, Mod, Max, Min and
  /// other calls become atoms. Nothing where the text is no expression.
  static std::optional<Polynomial> parse(std::string_view text);

  Polynomial operator+(const Polynomial&) const;
  Polynomial operator-(const Polynomial&) const;
  Polynomial operator*(const Polynomial&) const;
  /// Exact where every factor divides; an atom "floor(a,b)" otherwise, in lowest terms and not of another such atom:
  /// 2*(x//4)//4 is floor(x,8).
  Polynomial floorDivide(const Polynomial&) const;
  bool operator==(const Polynomial&) const = default;

  /// The number, where no atom is left.
  std::optional<int64_t> number() const;
  std::string text() const;
  /// An int where it is a number, else a SymbolicInt.
  Argument argument() const;

 private:
  using Monomial = std::vector<std::string>;  // sorted
  void add(const Monomial&, int64_t);
  std::optional<std::pair<Polynomial, int64_t>> divided() const;
  std::map<Monomial, int64_t> terms_;  // no zero factors
};

/// The integer an argument stands for: a literal, a symbolic int, or a value computed from sizes by integer arithmetic.
/// Sizes that no type knows become atoms, so that equal computations compare equal. Nothing where it is no integer.
std::optional<Polynomial> integerMeaning(const Graph&, const Argument&);
/// The size of that dimension where the value's type says a number; dim may be negative.
std::optional<int64_t> knownSize(const Graph&, ValueId tensor, int64_t dim);
/// The size of that dimension as a polynomial; dim may be negative where the rank is known. Nothing where it is out of
/// range.
std::optional<Polynomial> sizeMeaning(const Graph&, ValueId tensor, int64_t dim);

}  // namespace graft
