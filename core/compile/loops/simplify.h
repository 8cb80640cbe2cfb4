// Simplification of expressions: index arithmetic with the bounds of its ranges, and constants. It is what makes views
// cost nothing: (i0*64 + i1)//64 is i0 where i1 < 64.
//
//   Simplifier s(program);
//   ExprId row = s.floorDivide(s.add(s.multiply(i0, s.integer(64)), i1), s.integer(64));   // i0
//
// The functions build simplified expressions from simplified ones; simplify() does it with a whole expression.
// Floating-point expressions keep their value bit by bit: x + 0 stays, since -0 + 0 is 0.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/compile/loops/algebra/index_math.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

class Simplifier {
 public:
  /// Adds to the program's expressions. The program must outlive it; ranges and sizes may be added meanwhile.
  explicit Simplifier(Program&);

  ExprId integer(int64_t);
  // Of i64 expressions
  ExprId add(ExprId, ExprId);
  ExprId subtract(ExprId, ExprId);
  ExprId multiply(ExprId, ExprId);
  ExprId floorDivide(ExprId, ExprId);  ///< the divisor must not be 0
  ExprId remainder(ExprId, ExprId);    ///< likewise
  ExprId minimum(ExprId, ExprId);
  ExprId maximum(ExprId, ExprId);
  // Comparisons and choices; a condition that the bounds decide becomes a constant, and the choice its operand
  ExprId compare(Op, ExprId, ExprId);
  ExprId logicalAnd(ExprId, ExprId);
  ExprId select(ExprId condition, ExprId then, ExprId otherwise);

  /// The whole expression, all its parts. It has the same value with all sizes that checkSizes() (verify.h) accepts of
  /// a program with both.
  ExprId simplify(ExprId);
  /// The expression with `to` in the place of a range, simplified. A range of a Reduce may become another range alone.
  ExprId substitute(ExprId, const std::unordered_map<RangeId, ExprId>& to);
  Bounds bounds(ExprId) const;
  /// Whether a <= b, a < b or a == b for all values of the ranges and sizes; false where it cannot tell.
  bool isAlwaysLess(ExprId a, ExprId b) const;
  bool isAlwaysLessOrEqual(ExprId a, ExprId b) const;

  /// What the decisions stand on.
  IndexMath& math() const { return *math_; }
  const Program& program() const { return program_; }

 private:
  ExprId build(const Polynomial&);
  ExprId build(const Monomial&);
  ExprId build(Atom);
  ExprId sum(Polynomial);
  ExprId arithmetic(Op, std::initializer_list<ExprId>);
  bool joinRemainder(Polynomial&);
  std::optional<std::pair<Term, Polynomial>> findHigherDigit(const Polynomial&, const Polynomial& scale,
                                                             const Polynomial& quotient);
  bool isPositiveDivisor(const Polynomial&);
  bool isWithin(const Polynomial&, const Polynomial& limit);
  Polynomial quotient(const Polynomial&, const Polynomial& divisor, int depth);
  Polynomial rest(const Polynomial&, const Polynomial& divisor, int depth);
  ExprId compareNumbers(Op, ExprId, ExprId);
  ExprId compareSides(Op, const Polynomial& difference, Op fallback, ExprId, ExprId);
  ExprId rebuilt(const Expr&);
  template <class Leaf>
  ExprId rewrite(ExprId root, std::unordered_map<ExprId, ExprId>& done, const Leaf& leaf);

  Program& program_;
  std::unique_ptr<IndexMath> math_;
  std::unordered_map<ExprId, ExprId> simplified_;
};

}  // namespace graft::loops
