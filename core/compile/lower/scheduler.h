// Scheduler: loops for the tensors that are results, and for those that must stand in memory on the way.
//
//   Scheduler(lowering).run(results);
//
// Private to core/compile/lower. It refers to the lowering, whose program it adds to, and is used once. schedule.cpp
// finds what is read and chooses each target's loops, grouped_targets.cpp which targets share a nest, nests.cpp decides
// what a nest keeps for itself, and writes it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/compile/lower/lowering.h"
#include "core/compile/lower/schedule.h"

namespace graft::lower {

/// The loops over one tensor that is stored: one for each dimension other than 1, two where a size is taken apart.
struct Domain {
  std::vector<RangeId> ranges;  ///< the last one fastest
  Index index;                  ///< of the tensor, of these ranges
};

/// A tensor to be stored, and over what.
struct Target {
  TensorId tensor;
  loops::BufferId buffer;
  Domain domain = {};
  std::vector<RangeId> outer = {};  ///< of the domain's
  bool isRow = false;               ///< reductions decide what is outer
  bool isLocalToo = false;          ///< another target of its nest reads each element where it is made
};

class Scheduler {
 public:
  explicit Scheduler(Lowering& l) : l_(l) {}
  void run(const std::vector<ScheduledResult>& results);

 private:
  struct Request {
    TensorId tensor;
    Index index;
    auto operator<=>(const Request&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
  };

  // What is read
  /// Adds the loads of whole tensors in an expression.
  void collect(ExprId root, std::set<ExprId>& seen, std::set<Request>& found) const;
  /// The ranges in an expression, those that its reductions bind among them.
  const std::set<RangeId>& rangesIn(ExprId id);
  std::set<RangeId> rangesIn(const Index& index);
  /// At most how many iterations; nothing where that is not known.
  std::optional<int64_t> most(const std::vector<RangeId>& ranges) const;
  /// At most how many elements an expression's reductions combine for one value; 1 without reductions. Nothing where
  /// that is not known. What is loaded counts as one.
  std::optional<int64_t> workOf(ExprId id);
  /// What is stored for the index: a reduction or a scan itself, not a load of it.
  ExprId valueOf(TensorId t, const Index& i);
  /// Reductions and scans that an expression reads, with cheap producers computed inside it.
  std::set<Request> reductionsIn(ExprId value);
  /// Whether what a nest reads to compute the value is stored by a nest of its own that reads t.
  bool isNeededEarlier(TensorId t, ExprId value);
  /// Whether the place exists whatever conditions stand around the load.
  bool isInside(const Request& r) const;

  // What runs over what
  /// The same range for the same place and extent, so that stores of one nest share their loops.
  RangeId rangeAt(size_t place, ExprId extent);
  /// `splits`: by dimension, how many neighbours make one index of the first range of two; 0: one range.
  Domain domainOf(const Sizes& sizes, const std::vector<int64_t>& splits);
  Target planned(TensorId t, loops::BufferId buffer);
  /// A statistic for each k neighbours of a dimension (GroupNorm's channels): the dimension is taken apart, so that the
  /// statistic's own index is a range. One that is scanned stays whole.
  bool findSplits(TensorId of, const std::set<Request>& requests, const Domain& domain, std::vector<int64_t>& splits);
  /// How many elements of the domain read one place, with `each` neighbours among them.
  int64_t readersOf(const Request& r, const Domain& domain, int64_t each);
  void chooseOuter(Target& target, const std::set<Request>& requests);
  /// `work`: of one element.
  bool isParallelEnough(const std::set<RangeId>& outer, const std::set<RangeId>& all,
                        std::optional<int64_t> work) const;

  // Which targets share a nest
  /// What a target needs, through everything between: the inputs, and the places of tensors on the way.
  struct Reads {
    std::set<loops::BufferId> inputs;
    std::vector<std::pair<loops::BufferId, Index>> loads;  ///< of inputs
    std::set<Request> tensors;
  };
  /// Targets that one nest computes: those with the same outer ranges, and pointwise ones over all ranges of a row
  /// kernel that reads what they read.
  std::vector<std::vector<Target>> grouped(std::vector<Target> targets);
  /// `throughParts`: what parts of columns are made of, too, though another nest makes them.
  Reads readsOf(const Target& t, bool throughParts);
  bool hasColumnParts() const;
  /// The parts of columns that targets read, through everything between.
  std::vector<TensorId> columnPartsOf(const std::vector<Target>& targets);
  /// Whether one of the targets sums up this one's columns in some of those parts: the nest that makes them stores it
  /// on the way, so that what both are made of is read once. Not where another target goes over all of it in any case,
  /// nor where what it is made of lies across the columns, and needs tiles to be turned.
  bool joinsParts(const Target& t, const std::vector<Target>& targets, const std::vector<TensorId>& parts);
  bool joinsPartsOf(const Target& t, TensorId sums);
  /// Whether neighbours of what a target is made of are neighbours along one of these ranges. Small tensors do not
  /// count.
  bool liesAlong(const Target& t, const std::set<RangeId>& ranges);
  /// The parts' ranges, and those of their sum as loops of the target's own.
  bool takesDomainOfParts(Target& t, const Index& index, const Target& parts, const std::vector<RangeId>& summed);
  /// Whether a pointwise target can be stored by the iterations of a row kernel: it is one of the kernel's operands on
  /// the way, or reads what the kernel reads over the kernel's own ranges. Gives it the domain for that.
  bool joins(Target& t, const Target& row);
  /// Whether a target goes over the rows of another one in another order, as a transposed copy does, and reads the same
  /// reductions. Gives it the other one's ranges. On a CPU, which stores them turned.
  bool takesRows(Target& t, const Target& row);
  /// The ranges of `row` in the place of its own, so that the index `from` becomes `to`.
  bool takesRanges(Target& t, const Index& from, const Index& to, const Target& row);
  /// Whether a kernel's iterations are enough to store so many elements. One sum over what is stored, too, is one
  /// iteration, and one thread's or one block's.
  bool joinsInParallel(const Target& t, const Target& row) const;
  /// The outer ranges as they stand in the index by which the row kernel reads the tensor, and a loop for each other
  /// dimension.
  bool takesDomain(Target& t, const Index& index, const std::vector<RangeId>& outer);

  // Nests
  /// What becomes of a tensor in one nest.
  struct Decision {
    enum class How { Inside, Local, Temporary } how = How::Inside;
    loops::BufferId local;
    std::vector<bool> swept;  ///< of Local: the dimensions that its buffer has
    Index index;              ///< of Local: what is computed
    std::vector<RangeId> ranges;
    std::optional<RangeId> scan;
  };
  struct NestState {
    std::set<RangeId> outer;
    std::set<TensorId> own;                   ///< targets that are locals too
    bool isRow = false, isForOthers = false;  ///< it stores temporaries alone
    ExprId iterations;
    int64_t work = 1;  ///< at least, of one iteration
    std::map<TensorId, Decision> decisions;
    std::unordered_map<ExprId, ExprId> rewritten;
  };
  void emit(const std::vector<Target>& targets);
  /// `isWanted`: whether the nest that asks for the tensor asks for another one's buffer, too.
  void emitTemporary(TensorId t, const std::function<bool(TensorId)>& isWanted);
  ExprId targetValue(const Target& t);
  ExprId product(const std::vector<RangeId>& ranges);
  /// Of one iteration, to store a target; 1 where that is not known.
  int64_t workInside(const Target& t, ExprId value, const NestState& nest);
  Decision decide(TensorId t, const std::set<Index>& indices, const NestState& nest);
  /// A buffer of one iteration, where all its readers ask for the same place along some dimensions, and none of what is
  /// in it is computed in several iterations.
  bool findLocal(TensorId t, const std::set<Index>& indices, const NestState& nest, bool mayBeRow, Decision& d);
  /// Whether the nest finds the tensor in memory. A result that one nest needs for another is stored ahead of both.
  bool isStored(TensorId t, const NestState& nest) const;
  /// Whether one element takes little of an iteration's work.
  bool isCheap(TensorId t, const Index& index, const NestState& nest);
  bool hasLoad(ExprId id) const;
  void write(const std::vector<Target>& targets, const std::vector<ExprId>& values, NestState& nest);
  /// The expression with the nest's decisions in place of loads of whole tensors.
  ExprId rewrite(ExprId id, NestState& nest);
  /// Whether a result is there already: an earlier nest has stored it for others, or it is a row of this nest.
  bool isMade(const Target& t, const NestState& nest) const;
  /// Whether the store itself combines what it writes.
  bool isDirectScan(const Target& t) const;
  void setScan(loops::Store& store, TensorId t, const Index& index);
  /// Without the locals that nothing in the nest reads.
  void dropUnread(loops::Nest& nest);

  Lowering& l_;
  std::map<std::pair<size_t, ExprId>, RangeId> shared_;
  std::unordered_map<ExprId, std::set<RangeId>> ranges_;
  std::unordered_map<ExprId, std::optional<int64_t>> work_;
  std::set<TensorId> temporaries_;
  std::map<TensorId, Target> withParts_;  ///< results to be stored with those parts of columns
  struct Stored {
    size_t nest, store;
  };
  std::map<TensorId, Stored> results_;  ///< those that lie in outputs
};

}  // namespace graft::lower
