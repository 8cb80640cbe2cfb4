// Reductions. Where one has a result for each lane around it, it runs its ranges one after another. Otherwise its own
// lanes run along one of its ranges: lane k of an accumulator combines the elements k, k + lanes, k + 2 lanes … in this
// order. In the end the lanes are combined by halves: lane k with lane k + lanes / 2, until one is left. What is
// left over at the end of the range has an accumulator of its own, which is combined last but for the last register's
// halves. The order depends on the sizes and the level alone, so equal calls give equal bits, with any number of
// threads.
//
// An accumulator of f32 adds no more than kBlockSteps elements, and one of f64 what those come to: errors do not grow
// with the length. LibTorch adds blocks of blocks instead, in f32.
#include <algorithm>
#include <functional>
#include <utility>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

using loops::Expr;

namespace {
constexpr int64_t kBlockSteps = 16;
/// Loops of a window run so many times at most where they are written out: conditions and addresses then leave the
/// loops around them.
constexpr int64_t kMostUnrolled = 32;
constexpr double kMostInstructions = 1024;  ///< of the loops as they are written out
}  // namespace

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

std::vector<Value> NestEmitter::accumulate(const Expr& e, const std::vector<Value>& sofar, int lanes,
                                           const loops::Store* row) {
  if (row) {
    bindings_[row->ranges[0]] = bindings_.at(e.ranges[0]);
    emitElement(*row);
    bindings_.erase(row->ranges[0]);
  }
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
  int scope = scopeOf(id);
  // A loop without iterations may be what keeps an index of its loads inside.
  if (accesses_.of(id).isUnsafe) scope = std::max(scope, b_.emptyScope());
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

  const loops::Store* row = std::exchange(fused_, nullptr);
  InnerPlan plan = planner_.planReduce(id, isOutside);
  if (row) plan.lanes = std::min(plan.lanes, planner_.planStore(*row, false).lanes);
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
  // Loops from the outermost in, the lanes' last. Those around the block that one accumulator of f32 adds carry f64.
  const bool isBlocked = e.reduce == loops::ReduceKind::Sum && dtype == DType::Float32;
  const auto stepsOf = [&](const Loop& loop, int lanes) -> std::optional<int64_t> {
    const std::optional<int64_t> extent = known(loop.extent);
    return extent ? std::optional((*extent + lanes - 1) / lanes) : std::nullopt;
  };
  const size_t none = SIZE_MAX;
  size_t blockAt = none;  // a place in plan.sequential; its size: the lanes' loop
  int64_t blockSteps = kBlockSteps;
  if (isBlocked) {
    int64_t inside = 1;
    for (size_t i = plan.sequential.size() + (plan.vector ? 1 : 0); i-- > 0;) {
      const bool isLanes = i == plan.sequential.size();
      const std::optional<int64_t> steps =
          stepsOf(isLanes ? *plan.vector : plan.sequential[i], isLanes ? plan.lanes : 1);
      if (!steps || *steps * inside > kBlockSteps) {
        blockAt = i;
        blockSteps = std::max<int64_t>(1, kBlockSteps / inside);
        break;
      }
      inside *= std::max<int64_t>(*steps, 1);
    }
  }
  const auto widened = [&](std::vector<Value> values) {
    if (blockAt != none)
      for (Value& v : values) v = operations_.cast(v, DType::Float64);
    return values;
  };
  /// Runs `narrow`, which carries accumulators of f32 of these lanes from 0 on, and adds what it gives.
  const auto addBlock = [&](const std::vector<Value>& sofar, const std::vector<int>& lanes,
                            const std::function<std::vector<Value>(std::vector<Value>)>& narrow) {
    std::vector<Value> zeros;
    for (const int n : lanes) zeros.push_back(first(n).front());
    std::vector<Value> sums = narrow(std::move(zeros));
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = b_.binary("fadd", sofar[i], operations_.cast(sums[i], DType::Float64));
    return sums;
  };
  /// Runs `body` for blocks of [start, end), with the ends of each and what is carried.
  using Body = std::function<std::vector<Value>(const Value&, const Value&, std::vector<Value>)>;
  const auto inBlocks = [&](const Value& start, const Value& end, int64_t step, std::vector<Value> carried,
                            const Body& body) {
    carried = b_.openLoop(start, end, step, carried);
    memos_.emplace_back();
    const Value from = b_.loopIndex(), next = b_.binary("add", from, b_.integer(DType::Int64, step));
    carried = body(from, b_.select(b_.compare("icmp slt", next, end), next, end), carried);
    memos_.pop_back();
    return b_.closeLoop(carried);
  };
  std::vector<int> accumulatorLanes;
  std::function<std::vector<Value>(std::vector<Value>)> innermost;
  // The first of the sequential loops that are written out, step by step
  size_t unrolledFrom = plan.sequential.size();
  if (!plan.vector) {
    int64_t steps = 1;
    const double each = 1 + accesses_.of(e.operands[0]).operations;
    const auto most = std::min(kMostUnrolled, static_cast<int64_t>(kMostInstructions / each));
    for (size_t i = plan.sequential.size(); i-- > 0 && i != blockAt;) {
      const std::optional<int64_t> extent = known(plan.sequential[i].extent);
      if (!extent || *extent < 1 || *extent * steps > most) break;
      steps *= *extent;
      unrolledFrom = i;
    }
  }
  /// Runs the sequential loops from `level` on.
  const std::function<std::vector<Value>(size_t, std::vector<Value>)> loopsFrom = [&](size_t level,
                                                                                      std::vector<Value> carried) {
    if (level == plan.sequential.size()) return innermost(std::move(carried));
    const Loop& loop = plan.sequential[level];
    const auto over = [&](const Value& start, const Value& end, std::vector<Value> values) {
      openRange(loop, start, end, 1, 1, values, &values);
      return closeRange(loop, loopsFrom(level + 1, std::move(values)));
    };
    if (level >= unrolledFrom) {
      for (int64_t step = 0; step < *known(loop.extent); ++step) {
        bindSteps(loop, step);
        carried = loopsFrom(level + 1, std::move(carried));
      }
      unbindSteps(loop);
      return carried;
    }
    const Value end = value(loop.extent);
    if (level != blockAt) return over(zero, end, std::move(carried));
    return inBlocks(zero, end, blockSteps, std::move(carried),
                    [&](const Value& from, const Value& to, const std::vector<Value>& sofar) {
                      return addBlock(sofar, accumulatorLanes,
                                      [&](std::vector<Value> values) { return over(from, to, std::move(values)); });
                    });
  };
  std::vector<Value> result;
  if (!plan.vector) {
    const int lanes = isOutside ? lanes_.count : 1;
    accumulatorLanes = {lanes};
    innermost = [&](const std::vector<Value>& sofar) { return accumulate(e, sofar, lanes, row); };
    result = loopsFrom(0, widened(first(lanes)));
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
    if (hasWhole) accumulatorLanes.push_back(plan.lanes);
    if (hasRest) {
      const std::vector<Value> rest = first(restLanes);
      carried.insert(carried.end(), rest.begin(), rest.end());
      accumulatorLanes.push_back(restLanes);
    }
    const auto wholeLanes = [&](const Value& start, const Value& stop, std::vector<Value> sofar) {
      lanes_ = {plan.lanes, {}};
      openRange(*plan.vector, start, stop, plan.lanes, plan.lanes, sofar, &sofar);
      return closeRange(*plan.vector, accumulate(e, sofar, plan.lanes, row));
    };
    const auto someLanes = [&](std::vector<Value> sofar) {
      openRange(*plan.vector, wholeEnd, end, restLanes, restLanes, sofar, &sofar);
      const Value left = b_.convert("trunc", b_.binary("sub", end, b_.loopIndex()), DType::Int32);
      lanes_ = {restLanes, b_.compare("icmp slt", b_.lanesFrom0(DType::Int32, restLanes), left)};
      return closeRange(*plan.vector, accumulate(e, sofar, restLanes, row));
    };
    const bool isLanesBlocked = blockAt == plan.sequential.size();
    innermost = [&](const std::vector<Value>& sofar) {
      auto [whole, rest] = split(sofar, count);
      if (hasWhole && isLanesBlocked)
        whole = inBlocks(zero, wholeEnd, blockSteps * plan.lanes, std::move(whole),
                         [&](const Value& from, const Value& to, const std::vector<Value>& sum) {
                           return addBlock(sum, {plan.lanes}, [&](std::vector<Value> values) {
                             return wholeLanes(from, to, std::move(values));
                           });
                         });
      else if (hasWhole)
        whole = wholeLanes(zero, wholeEnd, std::move(whole));
      if (hasRest) rest = isLanesBlocked ? addBlock(rest, {restLanes}, someLanes) : someLanes(std::move(rest));
      lanes_ = {};
      whole.insert(whole.end(), rest.begin(), rest.end());
      return whole;
    };
    auto [all, last] = split(loopsFrom(0, widened(std::move(carried))), count);
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
  if (blockAt != none) result[0] = operations_.cast(result[0], DType::Float32);
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
