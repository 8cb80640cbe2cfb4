// Where a load or store lies in memory, as a sum of loop variables times strides; and what an expression depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/compile/loops/program.h"
#include "core/compile/loops/simplify.h"

namespace graft::codegen {

using loops::BufferId;
using loops::ExprId;
using loops::RangeId;

/// An offset in elements: constant + sum of atom * factor. An atom is a range, or an i64 expression of ranges that is
/// not affine; factors and the constant depend on sizes alone.
struct Affine {
  struct Term {
    ExprId atom;
    ExprId factor;
  };
  std::vector<Term> terms;
  ExprId constant;
};

/// What an expression depends on.
struct Dependence {
  std::vector<RangeId> ranges;    ///< free in it, sorted; those of its own Reduces are not
  std::vector<BufferId> written;  ///< the locals that it loads, sorted
  bool isUnsafe = false;          ///< it may be evaluated only where the Selects around it choose it
  double operations = 0;          ///< about how many instructions, without those in its Reduces
  bool depends(RangeId) const;
};

/// Whether a Reduce gives the place of an element, not one: ArgMinimum and ArgMaximum.
bool isPlace(const loops::Expr&);

/// The strides of a buffer, one for each dimension: i64 expressions of constants and sizes.
using Strides = std::vector<ExprId>;

/// Reads a program's expressions. Adds to its pool what strides times indices give.
class Accesses {
 public:
  /// `strides`: of each buffer of the program. Both must outlive it.
  Accesses(loops::Program&, std::vector<Strides> strides);

  const Dependence& of(ExprId);
  /// The offset of an element of the buffer.
  Affine offset(BufferId, const std::vector<ExprId>& index);
  const Affine& ofLoad(ExprId load);  ///< the same of a Load, kept
  /// Whether a Load's index lies in its buffer for all values of the ranges, whatever is around it.
  bool isAlwaysInside(ExprId load);
  /// The strides of a buffer that the program has got since.
  void addBuffer(Strides strides) { strides_.push_back(std::move(strides)); }
  Affine affine(ExprId id) { return read(id); }  ///< of any i64 expression
  loops::Simplifier& simplifier() { return simplifier_; }
  const loops::Program& program() const { return program_; }

  std::vector<int64_t> guesses;  ///< CpuOptions::guesses

 private:
  Affine read(ExprId);
  static void addTerm(Affine&, ExprId atom, ExprId factor, loops::Simplifier&);

  loops::Program& program_;
  std::vector<Strides> strides_;
  loops::Simplifier simplifier_;
  std::unordered_map<ExprId, Dependence> dependences_;
  std::unordered_map<ExprId, Affine> loads_;
  std::unordered_map<ExprId, bool> inside_;
};

/// The strides of a buffer without gaps, the last dimension fastest.
Strides rowMajor(loops::Program&, BufferId);

/// The value of an expression of constants and sizes.
int64_t evaluateSize(const loops::Program&, ExprId, const int64_t* sizes);

}  // namespace graft::codegen
