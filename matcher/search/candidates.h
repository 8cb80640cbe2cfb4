// Candidate roots: where the next returned value of a pattern may be, as seen from what a branch has bound already.
// RootLookup finds them by walking up the uses of something bound. Where one value has very many users (the keys and
// values of all of a decoder's layers read one input), it keeps what it found for that value as CandidateRoots: found
// once, not at each attempt, and asked for one after the other, the nearest first, without sorting them again or
// passing by those that are taken.
//
//   const CandidateRoots candidates(index, values);
//   CandidateRootWalk walk(candidates, last, taken);
//   while (const ValueId root = walk.next()) …
//
// All refer to the index. One thread at a time.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matcher/search/graph_index.h"
#include "matcher/search/state.h"

namespace graft {

class CandidateRoots {
 public:
  CandidateRoots(const GraphIndex& index, std::vector<ValueId> values);

 private:
  friend class CandidateRootWalk;
  /// In the order of the graph, those that nodes of one module call or of calls below it make.
  struct Row {
    std::vector<ValueId> values;
    std::vector<uint32_t> after, before;  ///< nearest index that may be free from there on, and from there down, plus 1
  };
  const GraphIndex& index_;
  mutable std::unordered_map<uint32_t, Row> rows_;  // by module call; the model itself under GraphIndex::none
};

/// Those of the innermost module call first that they share with `last`, then what comes after it, then by distance.
class CandidateRootWalk {
 public:
  /// `taken`, by node: of no use, now and for as long as the candidates are asked for.
  CandidateRootWalk(const CandidateRoots& candidates, NodeId last, const std::vector<uint8_t>& taken);
  /// None where there are no more.
  ValueId next();
  /// Values passed so far.
  uint64_t looked() const { return looked_; }

 private:
  bool isTaken(ValueId v) const;
  uint32_t freeFrom(CandidateRoots::Row& row, uint32_t i);
  uint32_t freeDownFrom(CandidateRoots::Row& row, uint32_t i);  // i and the result plus 1; 0: none
  void enter();

  const CandidateRoots& candidates_;
  const Graph& graph_;
  const std::vector<uint8_t>& taken_;
  NodeId last_;
  ModuleCallId module_;  // whose row is walked
  bool first_ = true, done_ = false;
  ModuleCallId inner_;  // whose row was walked before, where not first_
  CandidateRoots::Row* row_ = nullptr;
  uint32_t up_ = 0, down_ = 0;
  uint64_t looked_ = 0;
};

class RootLookup {
 public:
  explicit RootLookup(const MatchState& state)
      : state_(state), plan_(state.plan), index_(state.index), graph_(state.graph) {}

  /// The bound value of the pattern to walk up from to the root; none where nothing bound takes part in it.
  ValueId nearestBound(ValueId root) const;
  /// Candidates above `from`, the nearest to the branch first; anywhere, where `from` is none. `loose`: one operator on
  /// the way may be another.
  std::vector<ValueId> above(ValueId root, ValueId from, bool loose) const;
  /// Candidates by their operator alone, the nearest to the branch first.
  std::vector<ValueId> anywhere(ValueId root) const;
  /// All candidates above `from` for which `fits(root, candidate)` holds, kept for the next time; null where there are
  /// so few that finding them anew is faster.
  template <class F>
  const CandidateRoots* many(ValueId root, ValueId from, F&& fits);
  /// The node that the next root should be near to.
  NodeId lastMatched() const;

 private:
  // A value with more users than these is one that many layers read.
  static constexpr size_t fewUsers = 16;
  std::vector<ValueId> nearest(std::vector<ValueId> candidates) const;

  const MatchState& state_;
  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  std::map<std::tuple<ValueId, ValueId, ValueId>, CandidateRoots>
      kept_;  // by root, bound value and what it is bound to
};

template <class F>
const CandidateRoots* RootLookup::many(ValueId root, ValueId from, F&& fits) {
  if (!from) return nullptr;
  const ValueId start = state_.bound(from)->valueId();
  if (graph_.value(start).users.size() <= fewUsers) return nullptr;
  const std::tuple key(root, from, start);
  const auto known = kept_.find(key);
  if (known != kept_.end()) return &known->second;
  std::vector<ValueId> above;
  plan_.followUses(from, start, root, false, above);
  std::erase_if(above, [&](ValueId v) { return !graph_.value(v).producer || !fits(root, v); });
  return &kept_.try_emplace(key, index_, std::move(above)).first->second;
}

}  // namespace graft
