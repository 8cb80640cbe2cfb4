// What loops cost, in instructions, as LoopPlanner estimates it.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/compile/codegen/loop_plan.h"

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {

constexpr double kGuess = 128;  ///< of a size that varies
constexpr double kGather = 3;   ///< instructions for each lane that is loaded alone

}  // namespace

double LoopPlanner::estimate(ExprId size) const {
  const loops::Program& p = accesses_.program();
  std::vector<int64_t> guesses = accesses_.guesses;
  if (guesses.size() == p.sizes.size()) return static_cast<double>(evaluateSize(p, size, guesses.data()));
  guesses.clear();
  for (const loops::Size& s : p.sizes)
    guesses.push_back(
        std::clamp<int64_t>(static_cast<int64_t>(kGuess), s.min, s.max ? std::max(*s.max, s.min) : INT64_MAX));
  return static_cast<double>(evaluateSize(p, size, guesses.data()));
}

double LoopPlanner::extent(RangeId r) const { return std::max(1.0, estimate(accesses_.program().range(r).extent)); }

double LoopPlanner::loadCost(ExprId load, RangeId vector, double lanes) const {
  const Affine& where = accesses_.ofLoad(load);
  if (lanes <= 1 || stepOf(where, vector) != Step::Other) return 1;
  const auto stride = strideOf(where, vector);
  const int64_t apart = stride ? std::abs(*stride) : 0;
  if (apart > 0 && apart <= mostStep(width_)) return 2.0 * static_cast<double>(apart);
  return kGather * lanes;
}

LoopPlanner::Body LoopPlanner::bodyOf(ExprId value) {
  Body body{value, 0, {}, {}};
  std::set<uint32_t> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id.index).second) return;
    const Expr e = accesses_.program().expressions[id];
    if (e.op == Op::Reduce) {
      body.reduces.push_back(id);
      return;
    }
    double inside = 0;
    for (const ExprId operand : e.operands) {
      inside += accesses_.of(operand).operations;
      if (e.op != Op::Load) self(self, operand);
    }
    if (e.op == Op::Load) {
      body.loads.push_back(id);
      for (const Affine::Term& t : accesses_.ofLoad(id).terms)
        if (accesses_.program().expressions[t.atom].op != Op::Range) self(self, t.atom);
      return;
    }
    body.operations += std::max(0.0, accesses_.of(id).operations - inside);
  };
  walk(walk, value);
  return body;
}

double LoopPlanner::bodyCost(const Body& body, const std::vector<RangeId>& trips, std::optional<RangeId> vector) {
  double times = 1;
  for (const RangeId r : trips) times *= extent(r);
  double lanes = 1;
  if (vector && contains(trips, *vector)) lanes = std::min<double>(width_, extent(*vector));
  // A vector that fills no register has a loop for itself, which others share among several registers.
  constexpr double kLoop = 2;
  double each = body.operations + (lanes > 1 && lanes < width_ ? 1 + kLoop : 1);
  for (const ExprId load : body.loads) {
    each += lanes > 1 ? loadCost(load, *vector, lanes) : 1;
  }
  return times / lanes * each;
}

double LoopPlanner::reduceCost(ExprId id, std::optional<RangeId> vector) {
  const Expr e = accesses_.program().expressions[id];
  const Body body = bodyOf(e.operands[0]);
  std::vector<RangeId> trips = accesses_.of(e.operands[0]).ranges;
  for (const RangeId r : e.ranges)
    if (!contains(trips, r)) trips.push_back(r);
  // A local is another one in each iteration.
  if (!accesses_.of(e.operands[0]).written.empty())
    for (const RangeId r : outer_)
      if (!contains(trips, r)) trips.push_back(r);
  const bool lanesOutside = vector && contains(trips, *vector) && !contains(e.ranges, *vector);
  const std::optional<RangeId> own = lanesOutside ? vector : bestReduceRange(id);
  double cost = bodyCost(body, trips, own);
  for (const ExprId inner : body.reduces) cost += reduceCost(inner, own);
  return cost;
}

double LoopPlanner::storeCost(const loops::Store& store, std::optional<RangeId> vector) {
  const Body body = bodyOf(store.value);
  std::vector<RangeId> trips = outer_;
  trips.insert(trips.end(), store.ranges.begin(), store.ranges.end());
  double times = 1;
  for (const RangeId r : trips) times *= extent(r);
  const bool isVector = vector && contains(trips, *vector);
  const double lanes = isVector ? std::min<double>(width_, extent(*vector)) : 1;
  const bool isTurned = isVector && contains(outer_, *vector) && turnedAlong(store, *vector);
  if (isTurned && isTurnedCopy(store, *vector)) return times / lanes * kTranspose;
  double cost = bodyCost(body, trips, vector);
  // A local has an element for each lane along an outer range, one beside the other.
  const bool isOwn = vector && contains(outer_, *vector) &&
                     accesses_.program().buffer(store.buffer).role == loops::Buffer::Role::Local;
  const bool isScatter =
      isVector && !isOwn && stepOf(accesses_.offset(store.buffer, store.index), *vector) != Step::Unit;
  const bool isAlternate = isScatter && interleaved_ && isInterleaved(store, *vector, *interleaved_);
  cost += times / lanes * (isTurned ? kTranspose : isAlternate ? 3 : isScatter ? 2 * lanes : 1);
  for (const ExprId r : body.reduces) cost += reduceCost(r, vector);
  return cost;
}

std::optional<RangeId> LoopPlanner::bestReduceRange(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  const Body body = bodyOf(e.operands[0]);
  std::optional<RangeId> best;
  double least = 0;
  // The first of equal elements is found in the order of the ranges alone.
  for (size_t i = e.ranges.size(); i-- > (isPlace(e) ? e.ranges.size() - 1 : 0);) {
    if (extent(e.ranges[i]) < 4) continue;
    const double cost = bodyCost(body, e.ranges, e.ranges[i]);
    if (!best || cost < least) {
      best = e.ranges[i];
      least = cost;
    }
  }
  return best;
}

std::optional<RangeId> LoopPlanner::bestStoreRange(const loops::Store& store, double* cost) {
  std::optional<RangeId> best;
  double least = storeCost(store, {});
  for (size_t i = store.ranges.size(); i-- > 0;) {
    if (store.scan && *store.scan == store.ranges[i]) continue;
    const double c = storeCost(store, store.ranges[i]);
    if (c < least) {
      best = store.ranges[i];
      least = c;
    }
  }
  if (cost) *cost = least;
  return best;
}

}  // namespace graft::codegen
