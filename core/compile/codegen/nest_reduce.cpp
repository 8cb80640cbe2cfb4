// Reductions. Where one has a result for each lane around it, it runs its ranges one after another. Otherwise its own
// lanes run along one of its ranges: lane k of an accumulator combines the elements k, k + lanes, k + 2 lanes … in this
// order. In the end the lanes are combined by halves: lane k with lane k + lanes / 2, until one is left. What is
// left over at the end of the range has an accumulator of its own, which is combined last but for the last register's
// halves. The order depends on the sizes and the level alone, so equal calls give equal bits, with any number of
// threads.
#include <algorithm>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

using loops::Expr;

Value NestEmitter::placeOf(const Expr& e) {
  Value place = b_.integer(DType::Int64, 0);
  for (const RangeId r : e.ranges) {
    const Value extent = value(accesses_.program().range(r).extent);
    place = b_.binary("add", b_.binary("mul", place, extent), rangeValue(r));
  }
  return place;
}

std::vector<Value> NestEmitter::join(const Expr& e, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (!isPlace(e)) return {operations_.combine(e.reduce, a[0], b[0])};
  // The first place among equals
  const Value better = operations_.isBetter(e.reduce, b[0], a[0]), worse = operations_.isBetter(e.reduce, a[0], b[0]);
  const Value earlier = b_.compare("icmp slt", b[1], a[1]);
  const Value equal = b_.binary("xor", b_.binary("or", better, worse), b_.boolean(true));
  const Value takesB = b_.binary("or", better, b_.binary("and", equal, earlier));
  return {b_.select(takesB, b[0], a[0]), b_.select(takesB, b[1], a[1])};
}

std::vector<Value> NestEmitter::accumulate(const Expr& e, const std::vector<Value>& sofar, int lanes) {
  const Value next = value(e.operands[0]);
  std::vector<Value> result;
  if (isPlace(e)) {
    const Value better = operations_.isBetter(e.reduce, next, sofar[0]);
    result = {b_.select(better, next, sofar[0]), b_.select(better, placeOf(e), sofar[1])};
  } else {
    result = {operations_.combine(e.reduce, sofar[0], next)};
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (lanes > 1 && lanes_.active) result[i] = b_.select(lanes_.active, result[i], sofar[i]);
    result[i] = b_.spread(result[i], lanes);
  }
  return result;
}

Value NestEmitter::reduce(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  const DType dtype = accesses_.program().expressions[e.operands[0]].dtype;
  const int scope = scopeOf(id);
  const bool isOutside = isVector(id);
  const int guardBefore = guard_;
  if (!isOutside && guard_)
    if (const Value guard = guardValue(guard_); guard.lanes > 1) {
      // One result for all lanes around it: needed where one of them needs it.
      const Value any = b_.anyLane(lanes_.active ? b_.binary("and", guard, lanes_.active) : guard);
      guards_.push_back({0, {}, true, any});
      guard_ = static_cast<int>(guards_.size()) - 1;
    }
  b_.suspend(scope);
  suspendedMemos_.emplace_back();
  for (; static_cast<int>(memos_.size()) > scope + 1; memos_.pop_back())
    suspendedMemos_.back().push_back(std::move(memos_.back()));
  const Lanes lanesBefore = lanes_;
  if (!isOutside) lanes_ = {};

  const InnerPlan plan = planner_.planReduce(id, isOutside);
  const Value zero = b_.integer(DType::Int64, 0);
  const auto first = [&](int lanes) {
    std::vector<Value> values{b_.spread(operations_.identity(e.reduce, dtype), lanes)};
    if (isPlace(e)) values.push_back(b_.spread(zero, lanes));
    return values;
  };
  const auto split = [](const std::vector<Value>& all, size_t at) {
    return std::pair(std::vector<Value>(all.begin(), all.begin() + static_cast<long>(at)),
                     std::vector<Value>(all.begin() + static_cast<long>(at), all.end()));
  };
  std::vector<Value> result;
  if (!plan.vector) {
    const int lanes = isOutside ? lanes_.count : 1;
    std::vector<Value> carried = first(lanes);
    for (const Loop& loop : plan.sequential) openRange(loop, zero, value(loop.extent), 1, 1, carried, &carried);
    carried = accumulate(e, carried, lanes);
    for (size_t i = plan.sequential.size(); i-- > 0;) carried = closeRange(plan.sequential[i], carried);
    result = carried;
  } else {
    // Whole vectors first, then a register's lanes at a time, the last of them in part
    const std::optional<int64_t> extent = known(plan.vector->extent);
    const int restLanes = std::min(width_, plan.lanes);
    const bool hasWhole = !extent || *extent >= plan.lanes,
               hasRest = !extent || *extent == 0 || *extent % plan.lanes != 0;
    const Value end = value(plan.vector->extent);
    const Value wholeEnd = extent ? b_.integer(DType::Int64, *extent / plan.lanes * plan.lanes)
                                  : b_.binary("and", end, b_.integer(DType::Int64, -static_cast<int64_t>(plan.lanes)));
    std::vector<Value> carried;
    if (hasWhole) carried = first(plan.lanes);
    const size_t count = carried.size();
    if (hasRest) {
      const std::vector<Value> rest = first(restLanes);
      carried.insert(carried.end(), rest.begin(), rest.end());
    }
    for (const Loop& loop : plan.sequential) openRange(loop, zero, value(loop.extent), 1, 1, carried, &carried);
    auto [whole, rest] = split(carried, count);
    if (hasWhole) {
      lanes_ = {plan.lanes, {}};
      openRange(*plan.vector, zero, wholeEnd, plan.lanes, plan.lanes, whole, &whole);
      whole = closeRange(*plan.vector, accumulate(e, whole, plan.lanes));
    }
    if (hasRest) {
      openRange(*plan.vector, wholeEnd, end, restLanes, restLanes, rest, &rest);
      const Value left = b_.convert("trunc", b_.binary("sub", end, b_.loopIndex()), DType::Int32);
      lanes_ = {restLanes, b_.compare("icmp slt", b_.lanesFrom0(DType::Int32, restLanes), left)};
      rest = closeRange(*plan.vector, accumulate(e, rest, restLanes));
    }
    lanes_ = {};
    whole.insert(whole.end(), rest.begin(), rest.end());
    for (size_t i = plan.sequential.size(); i-- > 0;) whole = closeRange(plan.sequential[i], whole);
    auto [all, last] = split(whole, count);
    const auto halve = [&](std::vector<Value>& v) {
      std::vector<Value> low, high;
      for (const Value& x : v) {
        low.push_back(b_.half(x, false));
        high.push_back(b_.half(x, true));
      }
      v = join(e, low, high);
    };
    while (hasWhole && hasRest && all.front().lanes > last.front().lanes) halve(all);
    if (hasWhole && hasRest)
      all = join(e, all, last);
    else if (!hasWhole)
      all = last;
    while (all.front().lanes > 1) halve(all);
    result = all;
  }
  lanes_ = lanesBefore;
  guard_ = guardBefore;
  for (std::vector<std::unordered_map<uint64_t, Value>>& inner = suspendedMemos_.back(); !inner.empty();
       inner.pop_back())
    memos_.push_back(std::move(inner.back()));
  suspendedMemos_.pop_back();
  b_.resume();
  return isPlace(e) ? result[1] : result[0];
}

}  // namespace graft::codegen
