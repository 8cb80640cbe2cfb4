// Which loops a nest becomes: their order, which of them run as one, and which one the lanes of vectors run along.
//
// A vector runs along one range at a time. That is either one of the nest's outer ranges, for all of its stores
// (pointwise code, sums down the columns), or, in each store and reduction, one of its own (rows: softmax, norms, sums
// along the row). The plan estimates both in instructions and takes the cheaper one.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/loop_schedule.h"

namespace graft::codegen {

/// Ranges that run as one loop over the product of their extents, since every access steps through them evenly.
struct Loop {
  std::vector<RangeId> ranges;  ///< outermost first; the loop's variable stands for the last one, the others for 0
  ExprId extent;
};

/// The loops of a store or reduction, outermost first.
struct InnerPlan {
  std::vector<Loop> sequential;
  std::optional<Loop> vector;
  int lanes = 1;  ///< of the vector loop
  /// Where the nest's lanes lie apart in memory, and elements along this loop side by side: as many elements of it as
  /// lanes are computed, transposed in registers, and stored (or read, of a turned copy).
  std::optional<Loop> turned;
};

struct NestPlan {
  std::vector<Loop> outer;     ///< their iterations are shared out among threads
  std::optional<Loop> vector;  ///< an outer range that the lanes run along
  int lanes = 1;
  bool isOfColumns = false;      ///< the lanes reduce columns of rows that lie apart
  std::optional<int64_t> block;  ///< one iteration runs this much of `vector`; absent: all of it
  /// Another outer loop, along which some loads step by ones: squares of them are transposed, as many elements of it at
  /// a time as of `vector`.
  std::optional<Loop> tile;
  std::vector<ExprId> transposed;  ///< those loads
  /// How many elements of `tile` at a time. Without such loads, what is computed for a vector serves all of them.
  int64_t tileRows = 0;
  /// An outer range of few elements that lie side by side in memory, each of them as far apart along the lanes: vectors
  /// of all of them are computed, and their lanes stored alternately.
  std::optional<RangeId> interleaved;
  double instructions = 0;  ///< of one iteration, estimated
  double total = 0;         ///< of all of them
};

/// In which dtype a scan combines: sums and products one step wider than they are stored, as PyTorch has them. Each
/// element is rounded once.
DType scanType(DType stored, loops::ReduceKind);

/// How far apart elements may lie that a vector is shuffled together of, for registers of so many lanes of f32.
inline int64_t mostStep(int width) { return width / 2; }
/// How many elements side by side are stored alternately.
constexpr int64_t kMostInterleaved = 4;

class LoopPlanner {
 public:
  /// `width`: lanes of f32 in a register.
  LoopPlanner(Accesses&, int width, LoopSchedule = {});

  NestPlan plan(const loops::Nest&);
  /// Gives a plan with lanes a `tile` without transposes, where much of what is computed for a vector is the same for
  /// each element of another outer loop: the places and weights that all channels of an image are read with.
  void findRepeated(const loops::Nest&, NestPlan&);
  /// The loops of a store's own ranges; none of them is a vector where the nest's lanes run along another.
  InnerPlan planStore(const loops::Store&, bool vectorOutside);
  /// Takes the lanes' range apart into blocks where there are too few iterations for threads to share.
  void shareLanes(NestPlan&);
  /// A nest for a part of the lanes' range has lanes along a range of its own.
  void setLanes(RangeId part) { vector_ = part; }
  /// Whether the store copies a row to a local, of which neighbours lie apart for the lanes along the nest's vector.
  bool isTurnedCopy(const loops::Store&, RangeId vector);
  /// Whether lanes along `vector` write every count-th element, and `range` what is between.
  bool isInterleaved(const loops::Store&, RangeId vector, RangeId range);
  /// The loops of a Reduce; `vectorOutside`: it has one result for each lane of a vector around it.
  InnerPlan planReduce(ExprId reduce, bool vectorOutside);

 private:
  struct Use {
    Affine where;
    double bytes;
    bool isStore;
  };
  /// What the loops around a store or reduction touch.
  struct Uses {
    std::vector<Use> accesses;
    std::vector<RangeId> asValues;  ///< ranges that occur elsewhere than in affine indices
  };
  void collect(ExprId, Uses&, std::vector<ExprId>& seen);
  Uses usesOf(const loops::Store&);

  /// The lanes' range that the schedule chooses of these; nothing where it leaves that open.
  std::optional<RangeId> chosenLanes(const std::vector<RangeId>&) const;
  void sortAsChosen(std::vector<RangeId>&) const;
  /// What plan() costs with lanes along `vector`, which is one of the nest's outer ranges. `loops`: those of all of
  /// them.
  double costAlong(const loops::Nest&, RangeId vector, const std::vector<Loop>& loops);
  void findTile(const loops::Nest&, NestPlan&);
  /// Instructions for a vector of lanes along `vector` that the nest computes alike for each element of the loop.
  double sameFor(const loops::Nest&, RangeId vector, const Loop&);
  /// The range of its own along which a store writes, or a turned copy reads, neighbours, where lanes along `vector` do
  /// not.
  std::optional<RangeId> turnedAlong(const loops::Store&, RangeId vector);
  /// Whether the element at `where` is a neighbour of the next along `across`, and not along `along`. `isRead`: its
  /// place may be any function of `along` then.
  bool liesAcross(const Affine& where, RangeId along, RangeId across, bool isRead);

  /// An outer range that isInterleaved for some stores.
  std::optional<RangeId> interleavedRange(const loops::Nest&, RangeId vector);
  /// Instructions for a vector of lanes along `vector`.
  double loadCost(ExprId load, RangeId vector, double lanes) const;

  enum class Step { None, Unit, Other };
  Step stepOf(const Affine&, RangeId) const;
  std::optional<int64_t> strideOf(const Affine&, RangeId) const;  ///< where it is a number
  double outerIterations(const NestPlan&) const;                  ///< of the outer loops, by tiles
  double estimate(ExprId size) const;                             ///< with a guess at sizes that vary
  double extent(RangeId) const;
  std::vector<Loop> merge(const std::vector<RangeId>&, const Uses&, const std::vector<RangeId>& apart);
  void sortByStride(std::vector<RangeId>&, const Uses&) const;
  enum class Lanes { Elements, Row, Columns };  ///< of a row that is reduced, or of rows' columns
  int lanesFor(double operations, double extent, Lanes) const;

  template <class T>
  static bool contains(const std::vector<T>& v, T x) {
    return std::find(v.begin(), v.end(), x) != v.end();
  }

  // Estimates, in instructions: loop_costs.cpp
  static constexpr double kTranspose = 8;  ///< for each vector of a square that is transposed
  struct Body {
    ExprId value;
    double operations;
    std::vector<ExprId> loads, reduces;
  };
  Body bodyOf(ExprId);
  double bodyCost(const Body&, const std::vector<RangeId>& trips, std::optional<RangeId> vector);
  double storeCost(const loops::Store&, std::optional<RangeId> vector);
  double reduceCost(ExprId reduce, std::optional<RangeId> vector);
  std::optional<RangeId> bestReduceRange(ExprId reduce);
  std::optional<RangeId> bestStoreRange(const loops::Store&, double* cost);

  Accesses& accesses_;
  int width_;
  LoopSchedule schedule_;
  std::vector<RangeId> outer_;     ///< of the nest that was planned last
  std::optional<RangeId> vector_;  ///< and its lanes' range
  std::optional<RangeId> interleaved_;
};

}  // namespace graft::codegen
