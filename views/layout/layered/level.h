// One level of the layered layout: the items of one container, placed in layers from top to bottom. A drawing that runs
// to the right is one that runs down with x and y exchanged; the level does not know. Sugiyama's method:
// break cycles, longest-path layers, dummies that edges of one net share, barycentre sweeps, and x by repeated exact
// least-squares placement of each layer (pool adjacent violators) around the spine, the longest way from top to bottom,
// which is one vertical line. Linear in items and edges but for a few sorts: long edges where there are many take no
// part in it and are drawn as stubs (see `farthest`). A level much taller than wide can be cut into columns, and what
// runs back can stand beside what runs there. What was in the drawing before keeps its order in each layer.
//
//   Level level;  int a = level.addItem(80, 28);  int b = level.addItem(60, 28);
//   level.addEdge({.from = a, .to = b, .net = 7});
//   level.place({.labels = true});   level.items[a].x …  level.edges[0].stops
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "views/layout/layout.h"

namespace graft {

struct LevelItem {
  enum class Kind : uint8_t { Box, InPort, OutPort, Dummy } kind = Kind::Box;
  double width = 0, height = 0;
  double after = 0;     ///< free room on its right, for labels
  double x = 0, y = 0;  ///< the centre's x, the top's y
  double right() const { return x + width / 2 + after; }
  int layer = 0;
  int position = 0;     ///< in its layer
  bool isBack = false;  ///< on the way back, which no way leads out of: see `Options::mirrored`
  uint64_t name = 0;    ///< see LayoutOrder
  double across = 0;    ///< its x before columns are made and what runs back is turned
  /// Where it was among what was in its level; NaN: it is new. `isHint`: it is new, and this is where what it comes
  /// from stands outside of the level.
  double before = NAN;
  bool isHint = false;
};

struct LevelEdge {
  int from = 0, to = 0;
  uint32_t net = 0;                     ///< edges of one net from one item share their way
  bool joins = false;                   ///< those of one net to one item share theirs, too: a bundle on its way out
  double fromOffset = 0, toOffset = 0;  ///< fixed attachment, from the item's centre; only where …Fixed
  bool fromFixed = false, toFixed = false;
  double labelLength = 0;    ///< that its label takes of the way to the next layer
  std::vector<Point> stops;  ///< the result, relative to the level
  uint64_t netName = 0;      ///< of the net, for the names of dummies
  bool isFar = false;        ///< over more layers than anybody follows: `stops` are the end at `to` alone
};

class Level {
 public:
  /// Where all edges together cross more layers than `most`, those over more than `farthest` layers are stubs: a value
  /// that each of 50,000 layers uses would cross half of them each time.
  static constexpr int64_t most = 2'000'000;
  static constexpr int farthest = 150;

  std::vector<LevelItem> items;
  std::vector<LevelEdge> edges;
  double width = 0, height = 0;  ///< of everything placed; the left end is 0
  const LayoutOrder* before = nullptr;
  bool keepsOrder = false;  ///< see LayoutOptions

  int addItem(double w, double h, LevelItem::Kind kind = LevelItem::Kind::Box);
  int addEdge(LevelEdge edge);
  struct Options {
    bool labels = false;    ///< leave room for them
    bool columns = false;   ///< what is much taller than wide goes on in another column
    double shape = 1.4;     ///< the width in heights that columns aim at
    double low = 2000;      ///< pixels: what is lower stays whole
    double slim = 3.5;      ///< times as slim as wanted: what is wider stays whole
    bool early = false;     ///< a column ends before a layer that is too tall for the rest of it
    bool tail = false;      ///< what follows one layer that is nearly all of the level begins another column
    bool mirrored = false;  ///< items on the way back stand beside the others, upside down: it runs up
  };
  void place(const Options& options);
  // What `place` decided, for plans of levels
  const std::vector<std::vector<int>>& layers() const { return layers_; }
  const std::vector<std::vector<int>>& threads() const { return threads_; }
  /// The items an edge runs through, from the upper end to the lower.
  const std::vector<int>& chainOf(size_t edge) const { return chains_[edge]; }
  bool isReversed(size_t edge) const { return reversed_[edge]; }
  /// The layer in which the way back begins; 0: there is none.
  int wayBack() const { return turn_; }

 private:
  struct Segment {
    int from, to;  ///< items in neighbouring layers
    double fromOffset, toOffset;
    double weight;
  };
  void breakCycles();
  void assignLayers();
  void addDummies();
  void findThreads();
  void orderLayers();
  void startOrder();
  void takeFormerOrder();
  void numberPositions();
  uint64_t sweep(bool keepsFormerOrder);
  void restoreFormerOrder(std::vector<std::pair<double, int>>& keys) const;
  size_t turnsRound() const;
  uint64_t countCrossings() const;
  void assignX();
  std::pair<double, double> roomOf(int item) const;
  size_t secondSpine() const;
  std::pair<std::vector<char>, std::vector<double>> placeSpine() const;
  void straightenThreads();
  void straighten();
  double separation(int a, int b) const;
  double segmentOffset(int from, int to) const;
  void assignY(bool roomForLabels);
  void attach();
  void spread(std::vector<int>& list, int item, bool atTop);
  void route();
  int headOf() const;
  void breakIntoColumns(const Options& options);
  void findTurn();
  void mirror();
  /// Between what runs there and what runs back: no neighbours then.
  bool goesOverTheTurn(const Segment& s) const {
    return turn_ > 0 && items[s.from].layer < turn_ && items[s.to].layer >= turn_;
  }

  size_t boxCount_ = 0;         ///< items before the dummies
  std::vector<char> reversed_;  ///< by edge
  std::vector<std::vector<int>> layers_;
  std::vector<Segment> segments_;
  std::vector<std::vector<int>> up_, down_;  ///< by item: its segments
  std::vector<std::vector<int>> chains_;     ///< by edge: items it runs through, from the upper end to the lower
  std::vector<double> top_, bottom_;         ///< by layer
  std::vector<double> longest_;              ///< by layer: what its labels take of the way to the next
  /// Ways that should run straight down, the spine first: items of neighbouring layers, each in one thread at most.
  std::vector<std::vector<int>> threads_;
  std::vector<double> anchor_;  ///< by item: where its thread passes, from its centre
  int turn_ = 0;                ///< the layer in which the way back begins; 0: there is none
};

/// The name of what is the n-th of its kind between two that have names.
inline uint64_t derivedName(uint64_t first, uint64_t second, uint64_t n) {
  uint64_t h = first * 0x9E3779B97F4A7C15ULL + second;
  h = (h ^ h >> 31) * 0xBF58476D1CE4E5B9ULL + n;
  h = (h ^ h >> 29) * 0x94D049BB133111EBULL;
  return h ^ h >> 32;
}

/// A wished position and how much it matters.
struct Wish {
  double position, weight;
};
/// Moves the wishes to the positions nearest to them (weighted least squares) that keep `gap[i]` between i and i + 1.
void project(std::vector<Wish>& wishes, const std::vector<double>& gap);

}  // namespace graft
