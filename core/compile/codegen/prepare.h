// What happens to a program before loops are planned: sizes that are known become numbers, ranges of one element
// vanish, and ranges that are only used in parts are taken apart, so that indices become sums of loop variables.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/compile/codegen/access.h"

namespace graft::codegen {

/// Puts numbers in the place of all sizes, in the program and in the strides of its buffers.
void specialise(loops::Program&, const std::vector<int64_t>& sizes, std::vector<Strides>&);

/// Rewrites the nests of a program; its buffers stay.
class NestRewriter {
 public:
  explicit NestRewriter(Accesses& accesses, loops::Program& program) : accesses_(accesses), program_(program) {}

  /// The nest without ranges of one element, and with ranges split where `range // c` and `range % c` occur: view and
  /// reshape give such indices. Stores and reductions whose own ranges go through the pieces of a `cat` become one for
  /// each piece.
  loops::Nest prepare(loops::Nest);

  /// The values of an outer range at which the Selects that choose between two loads change their mind, sorted: where
  /// `cat` goes from one input to the next.
  std::vector<int64_t> borders(const loops::Nest& nest, RangeId range) { return borders(expressionsOf(nest), range); }
  /// Where an outer range goes from elements whose windows reach over an edge to those whose windows do not, and back:
  /// the borders of the part in which the conditions of Selects that guard one load hold, whatever the ranges inside
  /// are. None where that part has fewer than `fewest` elements.
  std::vector<int64_t> interior(const loops::Nest&, RangeId, int64_t fewest);
  /// Where the indices of loads bend that go along an outer range in straight stretches: at the edges of paddings that
  /// reflect, repeat or go round. None where no stretch has `fewest` elements.
  std::vector<int64_t> bends(const loops::Nest&, RangeId, int64_t fewest);
  /// A range for a part of another, of that many elements.
  RangeId addPart(RangeId range, int64_t extent) {
    return program_.addRange(std::string(program_.range(range).name), program_.expressions.integer(extent));
  }
  /// The nest with rows in locals, each copied once, which it reads elsewhere element by element, and of which
  /// neighbours lie along the row and not along the outer range `lanes`. Nothing where there are none.
  std::optional<loops::Nest> keepRows(const loops::Nest&, RangeId lanes);
  /// The nest with an outer range split whose elements alternate (`r // 2` and `r % 2` occur) and lie side by side in
  /// what is stored. Nothing where there is none of at most `most` alternatives.
  std::optional<loops::Nest> splitAlternating(const loops::Nest&, int64_t most);
  /// The nest for one value of an outer range.
  loops::Nest at(const loops::Nest&, RangeId, int64_t value);
  /// All loads of the nest.
  std::vector<ExprId> loadsOf(const loops::Nest&);
  /// The nest for [start, start + extent of `part`) of an outer range alone: `range` becomes `part` + start.
  loops::Nest restrictTo(const loops::Nest&, RangeId range, RangeId part, int64_t start);

 private:
  struct Replacement {
    ExprId value;
    std::vector<RangeId> ranges;
  };
  using Replacements = std::unordered_map<RangeId, Replacement>;
  ExprId rewrite(ExprId, const Replacements&, std::unordered_map<ExprId, ExprId>& done);
  loops::Nest rewrite(const loops::Nest&, const Replacements&);
  struct Split {
    RangeId range;
    int64_t divisor;
  };
  /// A range that divides evenly into pieces, as a division or remainder by their length says. Without `isAlternating`,
  /// not one that a store steps through by ones in short pieces, which leave no vectors; with it, one of these alone,
  /// an outer one, in pieces of at most `most`.
  bool findSplit(const loops::Nest&, Split&, bool isAlternating = false, int64_t most = 0);
  loops::Nest splitRange(const loops::Nest&, const Split&);
  /// Pieces of a range: from 0 to its extent. Empty where there is nothing to take apart, or too much.
  std::vector<int64_t> piecesOf(const std::vector<ExprId>& expressions, RangeId);
  void takeStoreApart(const loops::Store&, std::vector<loops::Store>&);
  ExprId takeReductionsApart(ExprId, std::unordered_map<ExprId, ExprId>& done);
  bool isUnitOfStore(const loops::Nest&, RangeId);
  void collect(ExprId, std::vector<ExprId>& seen);
  std::vector<ExprId> expressionsOf(const loops::Nest&);
  std::vector<int64_t> borders(const std::vector<ExprId>& expressions, RangeId);
  /// a * range + b
  struct Line {
    int64_t a, b;
  };
  /// The lines that an i64 expression follows, one after another; empty where it is none of them, or too many.
  std::vector<Line> linesOf(ExprId, RangeId);
  void bendsOf(ExprId, RangeId, std::vector<int64_t>& found);
  void conditionBorders(ExprId condition, RangeId, std::vector<int64_t>&);
  bool hasLoads(ExprId);
  bool choosesBetweenLoads(ExprId);  ///< a Select, as `cat` makes them
  struct Interval {
    int64_t begin, end;
  };
  /// Leaves of the interval what makes the condition true. False: it is none of a window.
  bool narrow(ExprId condition, const loops::Nest&, RangeId, Interval&);

  Accesses& accesses_;
  loops::Program& program_;
};

}  // namespace graft::codegen
