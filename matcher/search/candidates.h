// Places: where one returned value of a pattern may be, as seen from a value that is bound already: an input that the
// keys and values of all of a decoder's layers read has hundreds. Found once for each such value, not at each attempt,
// and asked for one after the other, the nearest first, without sorting them again or passing by those that are taken.
//
//   const Places places(index, values);
//   PlaceWalk walk(places, last, taken);
//   while (const ValueId place = walk.next()) …
//
// It refers to the index. One thread at a time.
#pragma once

#include <unordered_map>
#include <vector>

#include "matcher/search/graph_index.h"

namespace graft {

class Places {
 public:
  Places(const GraphIndex& index, std::vector<ValueId> values);

 private:
  friend class PlaceWalk;
  /// In the order of the graph, those that nodes of one module call or of calls below it make.
  struct Row {
    std::vector<ValueId> values;
    std::vector<uint32_t> after, before;  ///< nearest index that may be free from there on, and from there down, plus 1
  };
  const GraphIndex& index_;
  mutable std::unordered_map<uint32_t, Row> rows_;  // by module call; the model itself under GraphIndex::none
};

/// Those of the innermost module call first that they share with `last`, then what comes after it, then by distance.
class PlaceWalk {
 public:
  /// `taken`, by node: of no use, now and for as long as the places are asked for.
  PlaceWalk(const Places& places, NodeId last, const std::vector<uint8_t>& taken);
  /// None where there are no more.
  ValueId next();
  /// Values passed so far.
  uint64_t looked() const { return looked_; }

 private:
  bool isTaken(ValueId v) const;
  uint32_t freeFrom(Places::Row& row, uint32_t i);
  uint32_t freeDownFrom(Places::Row& row, uint32_t i);  // i and the result plus 1; 0: none
  void enter();

  const Places& places_;
  const Graph& graph_;
  const std::vector<uint8_t>& taken_;
  NodeId last_;
  ModuleCallId module_;  // whose row is walked
  bool first_ = true, done_ = false;
  ModuleCallId inner_;  // whose row was walked before, where not first_
  Places::Row* row_ = nullptr;
  uint32_t up_ = 0, down_ = 0;
  uint64_t looked_ = 0;
};

}  // namespace graft
