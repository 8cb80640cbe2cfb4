#include "core/compile/codegen/loop_plan.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {

constexpr int64_t kBlock = 4096;      ///< elements of a vector loop in one iteration
constexpr double kShortColumns = 12;  ///< instructions for an element of columns that are reduced

}  // namespace

LoopPlanner::LoopPlanner(Accesses& accesses, int width, LoopSchedule schedule)
    : accesses_(accesses), width_(width), schedule_(std::move(schedule)) {}

void LoopPlanner::collect(ExprId id, Uses& uses, std::vector<ExprId>& seen) {
  if (std::find(seen.begin(), seen.end(), id) != seen.end()) return;
  seen.push_back(id);
  const Expr e = accesses_.program().expressions[id];
  if (e.op == Op::Range) uses.asValues.push_back(e.range());
  if (e.op != Op::Load) {
    for (const ExprId operand : e.operands) collect(operand, uses, seen);
    return;
  }
  const Affine where = accesses_.ofLoad(id);
  uses.accesses.push_back({where, static_cast<double>(dtypeSize(e.dtype)), false});
  for (const Affine::Term& t : where.terms)
    if (accesses_.program().expressions[t.atom].op != Op::Range) collect(t.atom, uses, seen);
}

LoopPlanner::Uses LoopPlanner::usesOf(const loops::Store& store) {
  Uses uses;
  std::vector<ExprId> seen;
  const Affine where = accesses_.offset(store.buffer, store.index);
  const DType dtype = accesses_.program().buffer(store.buffer).dtype;
  uses.accesses.push_back({where, static_cast<double>(dtypeSize(dtype)), true});
  for (const Affine::Term& t : where.terms)
    if (accesses_.program().expressions[t.atom].op != Op::Range) collect(t.atom, uses, seen);
  collect(store.value, uses, seen);
  return uses;
}

LoopPlanner::Step LoopPlanner::stepOf(const Affine& a, RangeId r) const {
  const loops::ExprPool& pool = accesses_.program().expressions;
  Step step = Step::None;
  for (const Affine::Term& t : a.terms) {
    const Expr& e = pool[t.atom];
    if (e.op == Op::Range && e.range() == r) {
      const int64_t* factor = pool.findInteger(t.factor);
      if (!factor || *factor != 1) return Step::Other;
      step = Step::Unit;
    } else if (e.op != Op::Range && accesses_.of(t.atom).depends(r)) {
      return Step::Other;
    }
  }
  return step;
}

std::optional<int64_t> LoopPlanner::strideOf(const Affine& a, RangeId r) const {
  const loops::ExprPool& pool = accesses_.program().expressions;
  std::optional<int64_t> stride = 0;
  for (const Affine::Term& t : a.terms) {
    const Expr& e = pool[t.atom];
    if (e.op == Op::Range && e.range() == r) {
      const int64_t* factor = pool.findInteger(t.factor);
      stride = factor && stride ? std::optional(*factor) : std::nullopt;
    } else if (e.op != Op::Range && accesses_.of(t.atom).depends(r)) {
      stride.reset();
    }
  }
  return stride;
}

bool LoopPlanner::isInterleaved(const loops::Store& store, RangeId vector, RangeId range) {
  const loops::Program& program = accesses_.program();
  const int64_t* count = program.expressions.findInteger(program.range(range).extent);
  if (!count || *count < 2 || *count > kMostInterleaved || store.scan || !store.ranges.empty()) return false;
  if (program.buffer(store.buffer).role == loops::Buffer::Role::Local) return false;
  const Affine where = accesses_.offset(store.buffer, store.index);
  return strideOf(where, vector) == *count && strideOf(where, range) == 1;
}

std::optional<RangeId> LoopPlanner::interleavedRange(const loops::Nest& nest, RangeId vector) {
  if (!schedule_.transposes) return std::nullopt;
  for (const RangeId r : nest.outer)
    if (r != vector && std::any_of(nest.stores.begin(), nest.stores.end(),
                                   [&](const loops::Store& s) { return isInterleaved(s, vector, r); }))
      return r;
  return std::nullopt;
}

DType scanType(DType stored, loops::ReduceKind kind) {
  if (stored == DType::Float16 || stored == DType::BFloat16) return DType::Float32;
  const bool adds = kind == loops::ReduceKind::Sum || kind == loops::ReduceKind::Product;
  return stored == DType::Float32 && adds ? DType::Float64 : stored;
}

std::vector<Loop> LoopPlanner::merge(const std::vector<RangeId>& ranges, const Uses& uses,
                                     const std::vector<RangeId>& apart) {
  loops::Simplifier& s = accesses_.simplifier();
  const loops::Program& p = accesses_.program();
  std::vector<Loop> loops;
  for (const RangeId r : ranges) loops.push_back({{r}, p.range(r).extent});
  const auto factorOf = [&](const Affine& a, RangeId r) {
    for (const Affine::Term& t : a.terms)
      if (p.expressions[t.atom].op == Op::Range && p.expressions[t.atom].range() == r) return t.factor;
    return s.integer(0);
  };
  const auto isFree = [&](RangeId r) { return !contains(uses.asValues, r) && !contains(apart, r); };
  const auto fit = [&](const Loop& a, const Loop& b) {
    if (!isFree(a.ranges.back()) || !isFree(b.ranges.back())) return false;
    return std::all_of(uses.accesses.begin(), uses.accesses.end(), [&](const Use& u) {
      return factorOf(u.where, a.ranges.back()) == s.multiply(b.extent, factorOf(u.where, b.ranges.back()));
    });
  };
  for (bool found = true; found;) {
    found = false;
    for (size_t a = 0; a < loops.size() && !found; ++a)
      for (size_t b = 0; b < loops.size() && !found; ++b) {
        if (a == b || !fit(loops[a], loops[b])) continue;
        loops[b].ranges.insert(loops[b].ranges.begin(), loops[a].ranges.begin(), loops[a].ranges.end());
        loops[b].extent = s.multiply(loops[a].extent, loops[b].extent);
        loops.erase(loops.begin() + static_cast<long>(a));
        found = true;
      }
  }
  return loops;
}

void LoopPlanner::sortByStride(std::vector<RangeId>& ranges, const Uses& uses) const {
  // The store's strides decide, then the loads'.
  const auto key = [&](RangeId r) {
    std::vector<double> strides;
    for (const Use& u : uses.accesses) {
      double stride = 0;
      for (const Affine::Term& t : u.where.terms) {
        const Expr& e = accesses_.program().expressions[t.atom];
        if (e.op == Op::Range && e.range() == r) stride = std::abs(estimate(t.factor));
      }
      strides.push_back(-stride);
    }
    return strides;
  };
  std::stable_sort(ranges.begin(), ranges.end(), [&](RangeId a, RangeId b) { return key(a) < key(b); });
}

int LoopPlanner::lanesFor(double operations, double extent, Lanes kind) const {
  // Several registers at a time hide the latency of short bodies, and share what is the same for all lanes. Of columns
  // they are elements side by side, too: memory far from the next row's is read in longer pieces.
  int registers = 1;
  if (kind == Lanes::Columns)
    registers = operations <= kShortColumns ? 8 : operations <= 30 ? 4 : 2;
  else if (kind == Lanes::Row)
    registers = operations <= 10 ? 4 : operations <= 30 ? 2 : 1;
  else
    registers = operations <= 6 ? 4 : operations <= 20 ? 2 : 1;
  if (schedule_.registers > 0) registers = schedule_.registers;
  while (registers > 1 && extent < 2.0 * registers * width_) registers /= 2;
  return width_ * registers;
}

std::optional<RangeId> LoopPlanner::chosenLanes(const std::vector<RangeId>& ranges) const {
  const auto at = std::find_if(ranges.begin(), ranges.end(),
                               [&](RangeId r) { return accesses_.program().range(r).name == schedule_.lanes; });
  return at == ranges.end() ? std::nullopt : std::optional(*at);
}

void LoopPlanner::sortAsChosen(std::vector<RangeId>& ranges) const {
  const auto place = [&](RangeId r) {
    return std::find(schedule_.order.begin(), schedule_.order.end(), accesses_.program().range(r).name);
  };
  std::stable_sort(ranges.begin(), ranges.end(), [&](RangeId a, RangeId b) { return place(a) < place(b); });
}

NestPlan LoopPlanner::plan(const loops::Nest& nest) {
  NestPlan plan;
  Uses uses;
  for (const loops::Store& store : nest.stores) {
    Uses part = usesOf(store);
    uses.accesses.insert(uses.accesses.end(), part.accesses.begin(), part.accesses.end());
    uses.asValues.insert(uses.asValues.end(), part.asValues.begin(), part.asValues.end());
  }
  outer_ = nest.outer;
  interleaved_.reset();
  double inside = 0;
  for (const loops::Store& store : nest.stores) {
    double cost = 0;
    bestStoreRange(store, &cost);
    inside += cost;
  }
  std::vector<RangeId> order = nest.outer;
  sortByStride(order, uses);
  sortAsChosen(order);
  plan.outer = merge(order, uses, {});
  std::optional<RangeId> vector;
  double least = inside;
  for (size_t i = nest.outer.size(); i-- > 0;) {
    const double cost = costAlong(nest, nest.outer[i], plan.outer);
    if (cost < least) {
      least = cost;
      vector = nest.outer[i];
    }
  }
  if (schedule_.lanes == LoopSchedule::inner) {
    vector.reset();
    least = inside;
  } else if (const std::optional<RangeId> chosen = chosenLanes(nest.outer)) {
    vector = chosen;
    least = costAlong(nest, *vector, plan.outer);
  }
  plan.instructions = plan.total = least;
  vector_.reset();
  if (vector) {
    const auto at =
        std::find_if(plan.outer.begin(), plan.outer.end(), [&](const Loop& l) { return contains(l.ranges, *vector); });
    plan.vector = *at;
    vector_ = plan.vector->ranges.back();
    plan.outer.erase(at);
    double operations = 0, longest = 0;  // of stores that share a loop, and of the loops of others
    bool isReduction = false;
    for (const loops::Store& store : nest.stores) {
      const Body body = bodyOf(store.value);
      const double own = body.operations + static_cast<double>(body.loads.size());
      if (store.ranges.empty())
        operations += own;
      else
        longest = std::max(longest, own);
      for (const ExprId r : body.reduces) {
        isReduction |= accesses_.of(r).depends(*vector);
        const Expr& e = accesses_.program().expressions[r];
        const bool isWide = isPlace(e) || dtypeSize(e.dtype) == 8;  // lanes take twice the registers
        longest = std::max({longest, accesses_.of(e.operands[0]).operations, isWide ? kShortColumns + 1 : 0});
      }
    }
    operations = std::max(operations, longest);
    plan.interleaved = interleavedRange(nest, *vector_);
    if (plan.interleaved) {
      const auto alone = std::find_if(plan.outer.begin(), plan.outer.end(), [&](const Loop& l) {
        return l.ranges == std::vector<RangeId>{*plan.interleaved};
      });
      if (alone == plan.outer.end()) {
        plan.interleaved.reset();
      } else {
        operations *= estimate(alone->extent);
        plan.outer.erase(alone);
      }
    }
    const double length = estimate(plan.vector->extent);
    plan.isOfColumns = isReduction;
    plan.lanes = lanesFor(operations, length, isReduction ? Lanes::Columns : Lanes::Elements);
    const RangeId along = plan.vector->ranges.back();
    const bool isTurned = std::any_of(nest.stores.begin(), nest.stores.end(),
                                      [&](const loops::Store& s) { return turnedAlong(s, along).has_value(); });
    if (isTurned) plan.lanes = width_;
    const bool isKnown = accesses_.program().expressions.findInteger(plan.vector->extent) != nullptr;
    if (!isKnown || length > static_cast<double>(kBlock)) {
      plan.block = isReduction ? 4 * plan.lanes : kBlock;
    } else if (isReduction && length >= 8.0 * plan.lanes) {
      plan.block = 2 * plan.lanes;
    }
  }
  if (vector && schedule_.transposes && !plan.interleaved) findTile(nest, plan);
  if (vector && schedule_.block > 0) plan.block = (schedule_.block + plan.lanes - 1) / plan.lanes * plan.lanes;
  double iterations = outerIterations(plan);
  if (plan.block)
    iterations *= std::ceil(std::max(1.0, estimate(plan.vector->extent)) / static_cast<double>(*plan.block));
  plan.instructions /= iterations;
  return plan;
}

double LoopPlanner::outerIterations(const NestPlan& plan) const {
  double iterations = 1;
  for (const Loop& l : plan.outer) {
    const double length = std::max(1.0, estimate(l.extent));
    const bool isTile = plan.tile && l.ranges == plan.tile->ranges;
    iterations *= isTile ? std::ceil(length / static_cast<double>(plan.tileRows)) : length;
  }
  return iterations;
}

double LoopPlanner::costAlong(const loops::Nest& nest, RangeId vector, const std::vector<Loop>& loops) {
  double cost = 0;
  interleaved_ = interleavedRange(nest, vector);
  for (const loops::Store& store : nest.stores) cost += storeCost(store, vector);
  const bool isInterleaved = interleaved_.has_value();
  interleaved_.reset();
  if (!schedule_.transposes || isInterleaved) return cost;
  NestPlan plan;
  for (const Loop& l : loops)
    if (contains(l.ranges, vector))
      plan.vector = l;
    else
      plan.outer.push_back(l);
  findTile(nest, plan);
  double vectors = 1 / std::min<double>(width_, extent(vector));
  for (const RangeId r : nest.outer) vectors *= extent(r);
  for (const ExprId load : plan.transposed)
    cost -= vectors * (loadCost(load, vector, std::min<double>(width_, extent(vector))) - kTranspose);
  return cost;
}

void LoopPlanner::findTile(const loops::Nest& nest, NestPlan& plan) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  const RangeId along = plan.vector->ranges.back();
  std::vector<ExprId> loads;
  for (const loops::Store& store : nest.stores) {
    const Body body = bodyOf(store.value);
    if (!store.ranges.empty() || !body.reduces.empty()) return;
    loads.insert(loads.end(), body.loads.begin(), body.loads.end());
  }
  for (const Loop& loop : plan.outer) {
    const RangeId across = loop.ranges.back();
    if (estimate(loop.extent) < width_ / 2.0) continue;
    std::vector<ExprId> found;
    for (const ExprId load : loads)
      if (loadCost(load, along, width_) > kTranspose && liesAcross(accesses_.ofLoad(load), along, across, true) &&
          dtypeSize(pool[load].dtype) <= 4 && accesses_.isAlwaysInside(load) && !contains(found, load))
        found.push_back(load);
    if (found.size() <= plan.transposed.size()) continue;
    plan.tile = loop;
    plan.tileRows = width_;
    plan.transposed = std::move(found);
    plan.lanes = width_;
  }
}

double LoopPlanner::sameFor(const loops::Nest& nest, RangeId vector, const Loop& loop) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  const double lanes = std::min<double>(width_, extent(vector));
  double cost = 0;
  std::set<uint32_t> seen;
  const auto walk = [&](const auto& self, ExprId id) -> void {
    const Dependence& d = accesses_.of(id);
    if (!seen.insert(id.index).second || !d.depends(vector)) return;
    const Expr& e = pool[id];
    const bool isSame = d.written.empty() && std::none_of(loop.ranges.begin(), loop.ranges.end(),
                                                          [&](RangeId r) { return accesses_.of(id).depends(r); });
    if (e.op == Op::Reduce) return;
    if (e.op == Op::Load) {
      if (isSame) cost += loadCost(id, vector, lanes);
      for (const Affine::Term& t : Affine(accesses_.ofLoad(id)).terms)
        if (pool[t.atom].op != Op::Range) self(self, t.atom);
      return;
    }
    double inside = 0;
    for (const ExprId operand : Expr(e).operands) {
      inside += accesses_.of(operand).operations;
      self(self, operand);
    }
    if (isSame) cost += std::max(0.0, accesses_.of(id).operations - inside);
  };
  for (const loops::Store& store : nest.stores)
    if (!isTurnedCopy(store, vector)) walk(walk, store.value);  // squares are read for each of them
  return cost;
}

void LoopPlanner::findRepeated(const loops::Nest& nest, NestPlan& plan) {
  constexpr double kFewest = 8, kShare = 0.05;  ///< of instructions, that it is worth it
  constexpr double kMostRows = 16;              ///< each is a stream of its own to memory
  if (!plan.vector || plan.tile || plan.interleaved || !schedule_.transposes) return;
  const RangeId along = plan.vector->ranges.back();
  double all = 1, saved = kFewest;
  for (const Loop& loop : plan.outer) all *= std::max(1.0, estimate(loop.extent));
  const double vectors = all * estimate(plan.vector->extent) / std::min<double>(width_, extent(along));
  for (const Loop& loop : plan.outer) {
    const double count = estimate(loop.extent);
    if (count < 2) continue;
    const double rows = std::ceil(count / std::ceil(count / kMostRows));
    const double cost = sameFor(nest, along, loop) * (1 - 1 / rows);
    if (cost <= saved || cost * vectors < kShare * plan.total) continue;
    saved = cost;
    plan.tile = loop;
    plan.tileRows = static_cast<int64_t>(rows);
  }
  if (!plan.tile) return;
  const auto rows = static_cast<double>(plan.tileRows);
  saved = std::min(saved, 0.9 * plan.total / vectors);
  plan.instructions *=
      (1 - saved * vectors / plan.total) * estimate(plan.tile->extent) / std::ceil(estimate(plan.tile->extent) / rows);
  plan.total -= saved * vectors;
}

void LoopPlanner::shareLanes(NestPlan& plan) {
  constexpr double kFew = 8, kWorthIt = 1e5;  ///< iterations, and instructions for which another thread is worth it
  if (!plan.vector || plan.block || plan.total < kWorthIt) return;
  const double iterations = outerIterations(plan);
  if (iterations >= kFew) return;
  const double length = estimate(plan.vector->extent);
  while (plan.lanes > width_ && plan.lanes > length / 2) plan.lanes /= 2;
  if (plan.lanes >= length) return;
  const auto vectors = static_cast<int64_t>(length * iterations / kFew / plan.lanes);
  plan.block = plan.lanes * std::max<int64_t>(1, vectors);
  plan.instructions /= std::ceil(length / static_cast<double>(*plan.block));
}

bool LoopPlanner::liesAcross(const Affine& where, RangeId along, RangeId across, bool isRead) {
  const bool isFit = std::all_of(where.terms.begin(), where.terms.end(), [&](const Affine::Term& t) {
    if (accesses_.program().expressions[t.atom].op == Op::Range) return true;
    const Dependence& d = accesses_.of(t.atom);
    return !d.depends(across) && (!d.depends(along) || (isRead && !d.isUnsafe && d.written.empty()));
  });
  return isFit && stepOf(where, along) == Step::Other && stepOf(where, across) == Step::Unit;
}

bool LoopPlanner::isTurnedCopy(const loops::Store& store, RangeId vector) {
  const loops::Program& program = accesses_.program();
  const Expr& e = program.expressions[store.value];
  return e.op == Op::Load && store.ranges.size() == 1 && store.index.size() == 1 && !store.scan &&
         dtypeSize(e.dtype) == 4 && program.buffer(store.buffer).dtype == e.dtype &&
         program.buffer(store.buffer).role == loops::Buffer::Role::Local &&
         program.expressions[store.index[0]].op == Op::Range && accesses_.isAlwaysInside(store.value) &&
         liesAcross(accesses_.ofLoad(store.value), vector, store.ranges[0], true);
}

std::optional<RangeId> LoopPlanner::turnedAlong(const loops::Store& store, RangeId vector) {
  if (!schedule_.transposes || store.scan) return std::nullopt;
  if (isTurnedCopy(store, vector)) return store.ranges[0];
  const loops::Buffer& buffer = accesses_.program().buffer(store.buffer);
  if (buffer.role == loops::Buffer::Role::Local || dtypeSize(buffer.dtype) > 4) return std::nullopt;
  const Affine where = accesses_.offset(store.buffer, store.index);
  for (const RangeId r : store.ranges)
    if (extent(r) >= width_ / 2.0 && liesAcross(where, vector, r, false)) return r;
  return std::nullopt;
}

InnerPlan LoopPlanner::planStore(const loops::Store& store, bool vectorOutside) {
  InnerPlan plan;
  const Uses uses = usesOf(store);
  std::vector<RangeId> apart;
  if (store.scan) apart.push_back(*store.scan);
  std::vector<RangeId> order = store.ranges;
  if (!store.scan) sortByStride(order, uses);
  plan.sequential = merge(order, uses, apart);
  if (vectorOutside) {
    const std::optional<RangeId> along = vector_ ? turnedAlong(store, *vector_) : std::nullopt;
    if (!along) return plan;
    const auto at = std::find_if(plan.sequential.begin(), plan.sequential.end(),
                                 [r = *along](const Loop& l) { return l.ranges.back() == r; });
    if (at == plan.sequential.end()) return plan;
    plan.turned = *at;
    plan.sequential.erase(at);
    return plan;
  }
  if (const std::optional<RangeId> best = bestStoreRange(store, nullptr)) {
    const auto at = std::find_if(plan.sequential.begin(), plan.sequential.end(),
                                 [&](const Loop& l) { return contains(l.ranges, *best); });
    plan.vector = *at;
    plan.sequential.erase(at);
    const Body body = bodyOf(store.value);
    plan.lanes = lanesFor(body.operations + static_cast<double>(body.loads.size()), estimate(plan.vector->extent),
                          body.reduces.empty() ? Lanes::Elements : Lanes::Row);
  }
  return plan;
}

InnerPlan LoopPlanner::planReduce(ExprId id, bool vectorOutside) {
  InnerPlan plan;
  const Expr e = accesses_.program().expressions[id];
  Uses uses;
  std::vector<ExprId> seen;
  collect(e.operands[0], uses, seen);
  // Places are counted over the ranges as they are.
  plan.sequential = merge(e.ranges, uses, isPlace(e) ? e.ranges : std::vector<RangeId>{});
  if (vectorOutside) return plan;
  if (const std::optional<RangeId> best = bestReduceRange(id)) {
    const auto at = std::find_if(plan.sequential.begin(), plan.sequential.end(),
                                 [&](const Loop& l) { return contains(l.ranges, *best); });
    plan.vector = *at;
    plan.sequential.erase(at);
    const Body body = bodyOf(e.operands[0]);
    plan.lanes =
        lanesFor(body.operations + static_cast<double>(body.loads.size()), estimate(plan.vector->extent), Lanes::Row);
  }
  return plan;
}

}  // namespace graft::codegen
