// IndexMath: what is known of the whole numbers of a program: each as a polynomial, its bounds, and what follows from
// the extents of ranges, the limits of sizes and the conditions around. It reads a program and changes nothing.
//
//   IndexMath math(program);
//   math.isNonNegative(math.polynomial(extent) - math.polynomial(index) - Polynomial(1));   // index < extent
//
// An i64 expression is exact where its value is the one of unlimited whole numbers: where bounds show that it does not
// leave 64 bits, and, by contract, where it is an index and some size occurs in it: checkSizes() (verify.h) refuses a
// call whose sizes would make such an expression leave 64 bits. Of others nothing is concluded but what holds modulo
// 2^64.
// An index is made of constants, ranges, sizes, checked indices and numbers of smaller dtypes. What is made of i64
// data is none, even where they cancel out: x - x + 1 is 1, but checkSizes() does not follow what it is multiplied by.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/compile/loops/algebra/bounds.h"
#include "core/compile/loops/algebra/polynomial.h"
#include "core/compile/loops/program.h"

namespace graft::loops {

class IndexMath {
 public:
  /// The program must outlive it. It may get more expressions, ranges and sizes meanwhile.
  explicit IndexMath(const Program& program) : program_(program) {}

  /// Of an i64 expression.
  const Polynomial& polynomial(ExprId);
  /// Whether the expression is exact, and so equal to its polynomial over whole numbers.
  bool isExact(ExprId);
  /// Whether an expression of ranges and sizes that has this polynomial would be.
  bool isExact(const Polynomial&);
  /// Whether checkSizes() follows the i64 expression: only an index may take the place of one.
  bool isIndex(ExprId);
  /// The expression also has the value of one that is not exact: unless bounds show that it is, it counts as none.
  void doubt(ExprId);
  /// Of an expression of any integer dtype or bool.
  Bounds bounds(ExprId);
  Bounds bounds(const Polynomial&);

  /// What must not be negative where the condition has this value, added to `facts`.
  void collectFacts(ExprId condition, bool value, std::vector<Polynomial>& facts);
  /// From now on, proofs take no more than this many steps together; beyond them, none is found. Of programs from
  /// elsewhere, which may be made to take long.
  void limitSteps(int64_t steps) { stepsLeft_ = steps; }
  /// The condition's value, where the facts and the bounds decide it.
  std::optional<bool> decide(ExprId condition, std::span<const Polynomial> facts = {});
  /// Whether it is at least 0 for all values of ranges and sizes for which the facts are; false where that is not
  /// found. The polynomial stands for whole numbers: those of its expressions must be exact.
  bool isNonNegative(const Polynomial&, std::span<const Polynomial> facts = {});

 private:
  // What an expression is made of decides whether it is exact by contract.
  struct Makeup {
    bool isIndex = false;
    bool isSized = false;   // some size occurs in it
    bool hasRange = false;  // some range does
  };
  struct Known {
    Polynomial polynomial;
    bool isExact = true;
    Makeup makeup;
    Bounds bounds;
  };
  struct Interval {
    Bounds bounds;
    bool overflows = false;
  };

  const Known& known(ExprId);
  Known learn(ExprId);
  Bounds learnBounds(ExprId);
  Makeup makeup(Atom);
  Makeup makeup(const Polynomial&);
  Interval interval(const Polynomial&);
  bool isBounded(const Polynomial&);
  Bounds atomBounds(Atom);
  bool prove(Polynomial, const std::vector<Polynomial>& facts, int depth);
  bool proveByFacts(const Polynomial&, const std::vector<Polynomial>& facts, int depth);
  bool proveByAtom(const Polynomial&, Atom, const std::vector<Polynomial>& facts, int depth);
  bool proveBySizes(const Polynomial&, const std::vector<Polynomial>& facts, int depth);
  std::vector<Atom> hardestAtoms(const Polynomial&);

  const Program& program_;
  std::unordered_map<ExprId, Known> known_;
  int budget_ = 0;                 // steps left of one proof
  int64_t stepsLeft_ = INT64_MAX;  // of all
};

}  // namespace graft::loops
