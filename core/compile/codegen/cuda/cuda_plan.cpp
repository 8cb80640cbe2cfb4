#include "core/compile/codegen/cuda/cuda_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/compile/codegen/cuda/lane_steps.h"

namespace graft::codegen {

using loops::Expr;
using loops::Nest;
using loops::Op;
using loops::Store;
using Role = loops::Buffer::Role;

namespace {

/// A row shorter than this is left to one thread.
constexpr int64_t kShortRow = 24;
/// So are windows of at most so many elements, where there are so many for each multiprocessor.
constexpr int64_t kMostOfWindow = 128;
constexpr int64_t kManyWindows = 256;
/// Pieces of memory that a team of neighbouring threads reads well.
constexpr int64_t kLongPiece = 8;
/// Squares are worth it from this length of both sides on, and for so many loads.
constexpr int64_t kShortSide = 16;
constexpr size_t kMostTiles = 4;

}  // namespace

std::string CudaPlan::describe() const {
  if (kind == Kind::Product)
    return fmt::format("product of {}{} by {}, {} deep, in {}",
                       product->size.batches == 1 ? "" : fmt::format("{} times ", product->size.batches),
                       product->size.rows, product->size.columns, product->size.inner, product->tile.describe());
  if (kind == Kind::Tiles) return fmt::format("squares of {0} by {0}, transposed in shared memory", tile);
  if (kind == Kind::Threads) {
    if (vector * chunks == 1) return fmt::format("{} iterations, a thread each", iterations);
    return fmt::format("{} iterations, {} of each thread", iterations, vector * chunks);
  }
  std::string lengths;
  for (const auto& [length, row] : rows)
    lengths += fmt::format("{}{}{}", lengths.empty() ? "" : ", ", length, row.isInRegisters ? " in registers" : "");
  return fmt::format("{} {} of {}, {} threads each{}{}{}", iterations, kind == Kind::Rows ? "rows" : "columns", lengths,
                     team, cluster > 1 ? fmt::format(" in {} blocks", cluster) : "",
                     vector > 1 ? fmt::format(", {} columns of each thread", vector) : "",
                     sums.empty() ? "" : fmt::format(", {} of a block, which combines their columns", rowsOfBlock));
}

CudaPlanner::CudaPlanner(Accesses& accesses, loops::Program& program, std::vector<Strides> strides,
                         CudaPlanning planning)
    : accesses_(accesses), program_(program), strides_(std::move(strides)), planning_(std::move(planning)) {}

int64_t CudaPlanner::known(ExprId extent) const { return *program_.expressions.findInteger(extent); }

int64_t CudaPlanner::extentOf(const std::vector<RangeId>& ranges) const {
  int64_t n = 1;
  for (const RangeId r : ranges) n *= known(program_.range(r).extent);
  return n;
}

ExprId CudaPlanner::offset(BufferId buffer, const std::vector<ExprId>& index) {
  loops::Simplifier& s = accesses_.simplifier();
  ExprId sum = s.integer(0);
  for (size_t d = 0; d < index.size(); ++d) sum = s.add(sum, s.multiply(index[d], strides_[buffer.index][d]));
  return sum;
}

// ---- Rewriting ----

CudaPlanner::Replacements CudaPlanner::flatten(const std::vector<RangeId>& ranges, RangeId flat) {
  loops::Simplifier& s = accesses_.simplifier();
  Replacements to;
  int64_t below = 1;
  for (size_t i = ranges.size(); i-- > 0;) {
    const int64_t extent = known(program_.range(ranges[i]).extent);
    if (extent <= 1) {
      to[ranges[i]] = s.integer(0);
      continue;
    }
    const ExprId high = s.floorDivide(program_.expressions.range(flat), s.integer(below));
    below *= extent;
    to[ranges[i]] = s.remainder(high, s.integer(extent));
  }
  return to;
}

CudaRow& CudaPlanner::rowOf(CudaPlan& team, int64_t length) {
  const auto [at, isNew] = team.rows.try_emplace(length);
  if (isNew) {
    at->second.length = length;
    at->second.range = program_.addRange("j", program_.expressions.integer(length));
  }
  return at->second;
}

ExprId CudaPlanner::rewriteReduce(ExprId id, Rewriting& w, bool isGuarded, CudaPlan* team) {
  loops::Simplifier& s = accesses_.simplifier();
  Expr e = program_.expressions[id];
  const std::vector<RangeId> free = accesses_.of(id).ranges;
  const bool isRow = team && std::all_of(free.begin(), free.end(), [&](RangeId r) { return outer_.contains(r); }) &&
                     !(isGuarded && accesses_.of(id).isUnsafe) && extentOf(e.ranges) > 1;
  Rewriting inside{w.to, {}};
  std::vector<RangeId> ranges;
  if (isRow) {
    std::vector<RangeId> order = e.ranges;
    if (!isPlace(e)) {
      std::vector<std::pair<BufferId, std::vector<ExprId>>> loads;
      std::unordered_set<ExprId> seen;
      std::vector<ExprId> parts;
      collect(e.operands[0], seen, parts);
      for (const ExprId p : parts)
        if (const Expr& l = program_.expressions[p];
            l.op == Op::Load && program_.buffer(l.buffer()).role != Role::Local)
          loads.emplace_back(l.buffer(), l.operands);
      sortByStride(order, loads);
    }
    const RangeId j = rowOf(*team, extentOf(order)).range;
    for (const auto& [range, value] : flatten(order, j)) inside.to[range] = value;
    ranges = {j};
  } else {
    for (const RangeId r : e.ranges) {
      if (known(program_.range(r).extent) == 1)
        inside.to[r] = s.integer(0);
      else
        ranges.push_back(r);
    }
  }
  e.operands[0] = rewrite(e.operands[0], inside, isGuarded, isRow ? team : nullptr);
  if (ranges.empty()) return isPlace(e) ? s.integer(0) : e.operands[0];
  e.ranges = ranges;
  const loops::ExprPool::MadeFor origin(program_.expressions, program_.expressions.origin(id));
  const ExprId result = program_.expressions.add(std::move(e));
  if (isRow) team->rowReduces.insert(result);
  return result;
}

bool CudaPlanner::hasReduce(ExprId id) {
  if (const auto at = hasReduce_.find(id); at != hasReduce_.end()) return at->second;
  const Expr& e = program_.expressions[id];
  bool has = e.op == Op::Reduce;
  for (size_t i = 0; i < e.operands.size() && !has; ++i) has = hasReduce(e.operands[i]);
  hasReduce_.emplace(id, has);
  return has;
}

/// `team`: gets the rows of Reduces that stand alone in an iteration; null: none are made.
ExprId CudaPlanner::rewrite(ExprId id, Rewriting& w, bool isGuarded, CudaPlan* team) {
  const uint64_t key = static_cast<uint64_t>(id.index) << 2 | (isGuarded ? 2 : 0) | (team ? 1 : 0);
  if (const auto at = w.done.find(key); at != w.done.end()) return at->second;
  Expr e = program_.expressions[id];
  ExprId result = id;
  if (e.op == Op::Range) {
    const auto at = w.to.find(e.range());
    if (at != w.to.end()) result = at->second;
  } else if (e.op == Op::Reduce) {
    result = rewriteReduce(id, w, isGuarded, team);
  } else if (!e.operands.empty()) {
    for (size_t i = 0; i < e.operands.size(); ++i)
      e.operands[i] = rewrite(e.operands[i], w, isGuarded || (e.op == Op::Select && i > 0), team);
    // Simplification would rewrite the Reduces below, which are known by their ids.
    const bool isIndex = e.dtype == DType::Int64 && e.op != Op::Load && !hasReduce(id);
    const loops::ExprPool::MadeFor origin(program_.expressions, program_.expressions.origin(id));
    result = program_.expressions.add(std::move(e));
    if (isIndex) result = accesses_.simplifier().simplify(result);
  }
  w.done.emplace(key, result);
  return result;
}

Store CudaPlanner::rewrite(const Store& store, Rewriting& w, CudaPlan* team) {
  Store result = store;
  for (ExprId& index : result.index) index = rewrite(index, w, false, nullptr);
  result.value = rewrite(result.value, w, false, team);
  return result;
}

void CudaPlanner::collect(ExprId id, std::unordered_set<ExprId>& seen, std::vector<ExprId>& order) const {
  if (!seen.insert(id).second) return;
  for (const ExprId operand : program_.expressions[id].operands) collect(operand, seen, order);
  order.push_back(id);
}

std::vector<ExprId> CudaPlanner::partsOf(const Store& store) const {
  std::unordered_set<ExprId> seen;
  std::vector<ExprId> order;
  for (const ExprId index : store.index) collect(index, seen, order);
  collect(store.value, seen, order);
  return order;
}

int64_t CudaPlanner::strideOf(BufferId buffer, const std::vector<ExprId>& index, RangeId range) {
  for (const Affine::Term& t : accesses_.offset(buffer, index).terms) {
    const Expr& atom = program_.expressions[t.atom];
    if (atom.op == Op::Range && atom.range() == range) return std::abs(known(t.factor));
  }
  return 0;
}

/// Whether neighbours along the range lie side by side in memory: all, or pieces of some length.
bool CudaPlanner::liesSideBySide(BufferId buffer, const std::vector<ExprId>& index, RangeId range) {
  constexpr int64_t leastPiece = 8;
  for (const Affine::Term& t : accesses_.offset(buffer, index).terms) {
    if (std::abs(known(t.factor)) != 1) continue;
    const Expr& atom = program_.expressions[t.atom];
    if (atom.op == Op::Range && atom.range() == range) return true;
    if (atom.op != Op::Remainder) continue;
    const Expr& of = program_.expressions[atom.operands[0]];
    const int64_t* const piece = program_.expressions.findInteger(atom.operands[1]);
    if (of.op == Op::Range && of.range() == range && piece && *piece >= leastPiece) return true;
  }
  return false;
}

/// The greatest strides first, as the first access has them, then as the others.
void CudaPlanner::sortByStride(std::vector<RangeId>& ranges,
                               const std::vector<std::pair<BufferId, std::vector<ExprId>>>& accesses) {
  std::unordered_map<RangeId, std::vector<int64_t>> keys;
  for (const RangeId r : ranges)
    for (const auto& [buffer, index] : accesses) keys[r].push_back(-strideOf(buffer, index, r));
  std::stable_sort(ranges.begin(), ranges.end(), [&](RangeId a, RangeId b) { return keys[a] < keys[b]; });
}

// ---- Plans ----

int CudaPlanner::vectorFor(const std::vector<Store>& stores, RangeId range, int64_t length, ExprId without) {
  struct Access {
    ExprId offset;
    int64_t bytes, alignment;
  };
  std::vector<Access> along;
  for (const Store& store : stores) {
    std::unordered_set<ExprId> seen{without};
    std::vector<ExprId> parts;
    collect(store.value, seen, parts);
    const auto add = [&](BufferId buffer, const std::vector<ExprId>& index) {
      if (program_.buffer(buffer).role == Role::Local) return;
      const ExprId where = offset(buffer, index);
      if (accesses_.of(where).depends(range))
        along.push_back({where, static_cast<int64_t>(dtypeSize(program_.buffer(buffer).dtype)),
                         planning_.alignments[buffer.index]});
    };
    for (const ExprId p : parts)
      if (const Expr e = program_.expressions[p]; e.op == Op::Load) add(e.buffer(), e.operands);
    add(store.buffer, store.index);
  }
  if (along.empty()) return 1;
  int64_t smallest = 8;
  for (const Access& a : along) smallest = std::min(smallest, a.bytes);
  for (int64_t lanes = std::min<int64_t>(8, 16 / smallest); lanes > 1; lanes /= 2) {
    if (length % lanes != 0) continue;
    LaneSteps steps(accesses_, range, lanes);
    int64_t bytes = 0, wide = 0;
    for (const Access& a : along) {
      if (steps.of(a.offset) == LaneSteps::Step::Same) continue;
      bytes += a.bytes;
      const int64_t width = steps.width(a.offset, a.alignment, a.bytes);
      if (width > 1 && width >= std::min(lanes, 16 / a.bytes)) wide += a.bytes;
    }
    if (wide > 0 && 2 * wide >= bytes) return static_cast<int>(lanes);
  }
  return 1;
}

std::optional<CudaPlan> CudaPlanner::planTiles(const std::vector<const Store*>& stores,
                                               const std::vector<RangeId>& ranges) {
  if (ranges.size() < 2) return std::nullopt;
  const RangeId along = ranges.back();
  struct Found {
    std::vector<ExprId> loads;
    int64_t bytes = 0;
  };
  std::map<RangeId, Found> across;
  for (const Store* store : stores) {
    if (strideOf(store->buffer, store->index, along) != 1) return std::nullopt;
    for (const ExprId p : partsOf(*store)) {
      const Expr e = program_.expressions[p];
      if (e.op == Op::Reduce || (e.op == Op::Load && program_.buffer(e.buffer()).role == Role::Local))
        return std::nullopt;
      if (e.op != Op::Load || accesses_.of(p).isUnsafe || strideOf(e.buffer(), e.operands, along) == 1) continue;
      const Affine where = accesses_.offset(e.buffer(), e.operands);
      const bool isAffine = std::all_of(where.terms.begin(), where.terms.end(), [&](const Affine::Term& t) {
        return program_.expressions[t.atom].op == Op::Range;
      });
      if (!isAffine || !accesses_.of(p).depends(along)) continue;
      for (const RangeId r : ranges)
        if (r != along && strideOf(e.buffer(), e.operands, r) == 1) {
          across[r].loads.push_back(p);
          across[r].bytes += static_cast<int64_t>(dtypeSize(e.dtype));
        }
    }
  }
  const auto best = std::max_element(across.begin(), across.end(),
                                     [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  if (best == across.end() || best->second.loads.size() > kMostTiles) return std::nullopt;
  if (known(program_.range(along).extent) < kShortSide || known(program_.range(best->first).extent) < kShortSide)
    return std::nullopt;
  CudaPlan plan;
  plan.kind = CudaPlan::Kind::Tiles;
  plan.along = along;
  plan.across = best->first;
  int64_t widest = 1;
  for (const ExprId l : best->second.loads)
    widest = std::max(widest, static_cast<int64_t>(dtypeSize(program_.expressions[l].dtype)));
  plan.tile = widest <= 2 ? 64 : 32;
  std::vector<RangeId> rest = ranges;
  std::erase_if(rest, [&](RangeId r) { return r == plan.along || r == plan.across; });
  plan.iterations = extentOf(rest);
  plan.index = program_.addRange("i", program_.expressions.integer(plan.iterations));
  const Replacements flat = flatten(rest, plan.index);
  for (const Store* store : stores) {
    Rewriting w{flat, {}};
    for (size_t i = 0; i < store->ranges.size(); ++i)
      if (stores[0]->ranges[i] != store->ranges[i]) return std::nullopt;
    Store s = rewrite(*store, w, nullptr);
    s.ranges.clear();
    plan.nest.stores.push_back(std::move(s));
    for (const ExprId l : best->second.loads) {
      const ExprId now = rewrite(l, w, false, nullptr);
      if (std::find(plan.transposed.begin(), plan.transposed.end(), now) == plan.transposed.end())
        plan.transposed.push_back(now);
    }
  }
  plan.nest.outer = {plan.index, plan.across, plan.along};
  return plan;
}

/// Whether several loads come again within a block, as those of a channel's statistics do: what several accesses of a
/// thread share is loaded once.
bool CudaPlanner::isPeriodic(const CudaPlan& plan) const {
  std::unordered_set<BufferId> again;
  for (const Store& store : plan.nest.stores)
    for (const ExprId p : partsOf(store)) {
      const Expr& e = program_.expressions[p];
      if (e.op != Op::Load || !accesses_.of(p).depends(plan.index)) continue;
      int64_t count = 1;
      for (const ExprId size : program_.buffer(e.buffer()).sizes) count *= known(size);
      if (count > 1 && (int64_t{plan.vector} * plan.threads) % count == 0) again.insert(e.buffer());
    }
  return again.size() >= 2;
}

std::vector<CudaPlan> CudaPlanner::planThreads(const Nest& nest, bool isSplit) {
  // Stores over the same extents run together.
  std::vector<std::pair<std::vector<int64_t>, std::vector<const Store*>>> together;
  for (const Store& store : nest.stores) {
    std::vector<int64_t> extents;
    if (isSplit)
      for (const RangeId r : store.ranges) extents.push_back(known(program_.range(r).extent));
    auto at = std::find_if(together.begin(), together.end(), [&](const auto& t) { return t.first == extents; });
    if (at == together.end()) at = together.insert(together.end(), {extents, {}});
    at->second.push_back(&store);
  }
  const bool hasInner =
      std::any_of(nest.stores.begin(), nest.stores.end(), [](const Store& s) { return !s.ranges.empty(); });
  std::vector<CudaPlan> plans;
  for (const auto& [extents, stores] : together) {
    CudaPlan plan;
    const Store& first = *stores[0];
    std::vector<RangeId> ranges = nest.outer;
    if (isSplit) ranges.insert(ranges.end(), first.ranges.begin(), first.ranges.end());
    std::vector<std::pair<BufferId, std::vector<ExprId>>> places;
    for (const Store* store : stores)
      if (program_.buffer(store->buffer).role != Role::Local) places.emplace_back(store->buffer, store->index);
    for (const Store* store : stores)
      for (const ExprId p : partsOf(*store))
        if (const Expr e = program_.expressions[p]; e.op == Op::Load) places.emplace_back(e.buffer(), e.operands);
    sortByStride(ranges, places);
    if (isSplit || !hasInner)
      if (std::optional<CudaPlan> tiles = planTiles(stores, ranges)) {
        plans.push_back(std::move(*tiles));
        continue;
      }
    plan.iterations = extentOf(ranges);
    plan.index = program_.addRange("i", program_.expressions.integer(plan.iterations));
    const Replacements flat = flatten(ranges, plan.index);
    for (const Store* store : stores) {
      Rewriting w{flat, {}};
      if (isSplit)
        for (size_t i = 0; i < store->ranges.size(); ++i) w.to[store->ranges[i]] = flat.at(first.ranges[i]);
      const auto isOne = [&](RangeId r) { return known(program_.range(r).extent) == 1 && store->scan != r; };
      for (const RangeId r : store->ranges)
        if (isOne(r)) w.to[r] = program_.expressions.integer(0);
      Store s = rewrite(*store, w, nullptr);
      std::erase_if(s.ranges, [&](RangeId r) { return isSplit || isOne(r); });
      plan.nest.stores.push_back(std::move(s));
    }
    plan.nest.outer = {plan.index};
    const bool isPlain =
        std::all_of(plan.nest.stores.begin(), plan.nest.stores.end(), [](const Store& s) { return s.ranges.empty(); });
    if (isPlain) plan.vector = vectorFor(plan.nest.stores, plan.index, plan.iterations);
    // Wide accesses pay once every multiprocessor has work.
    while (plan.vector > 1 && plan.iterations / plan.vector < planning_.limits.multiprocessors * 128LL)
      plan.vector /= 2;
    plan.threads = plan.iterations / plan.vector < planning_.limits.multiprocessors * 512LL ? 128 : 256;
    // Several accesses at a time where no end needs a condition.
    const auto fits = [&](int64_t times) {
      const int64_t each = times * plan.vector * plan.threads;
      return plan.vector > 1 && plan.iterations % each == 0 &&
             plan.iterations / each >= planning_.limits.multiprocessors * 8LL;
    };
    if (!planning_.isInParts && fits(2)) plan.chunks = isPeriodic(plan) && fits(4) ? 4 : 2;
    plan.perBlock = plan.threads;
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// Whether the Reduces of the nest combine windows: what most is read of is read several times over, or in pieces too
/// short for a team.
bool CudaPlanner::readsWindows(const Nest& nest) {
  int64_t most = 0;
  bool areWindows = false;
  for (const Store& store : nest.stores)
    for (const ExprId p : partsOf(store)) {
      if (program_.expressions[p].op != Op::Reduce) continue;
      std::unordered_set<ExprId> seen;
      std::vector<ExprId> parts;
      collect(program_.expressions[p].operands[0], seen, parts);
      for (const ExprId part : parts) {
        const Expr e = program_.expressions[part];
        if (e.op != Op::Load) continue;
        int64_t reads = 1, elements = 1, piece = 1;
        bool isOfRow = false;
        for (const RangeId r : accesses_.of(part).ranges) {
          const int64_t extent = known(program_.range(r).extent);
          reads *= extent;
          if (outer_.contains(r)) continue;
          isOfRow = true;
          if (liesSideBySide(e.buffer(), e.operands, r)) piece = std::max(piece, extent);
        }
        if (!isOfRow || reads < most) continue;
        for (const ExprId size : program_.buffer(e.buffer()).sizes) elements *= known(size);
        const bool isWindow = 2 * reads >= 3 * elements || (piece > 1 && piece < kLongPiece);
        areWindows = isWindow && (areWindows || reads > most);
        most = reads;
      }
    }
  return areWindows;
}

std::vector<CudaPlan> CudaPlanner::plan(const Nest& whole, bool hasTeams) {
  Nest nest = whole;
  std::erase_if(nest.stores, [&](const Store& s) { return extentOf(s.ranges) == 0; });
  if (nest.stores.empty() || extentOf(nest.outer) == 0) return {};
  outer_ = {nest.outer.begin(), nest.outer.end()};
  bool hasLocals = false, hasArrays = false, hasScan = false, hasInner = false;
  int64_t longest = 0;
  for (const Store& store : nest.stores) {
    const bool isLocal = program_.buffer(store.buffer).role == Role::Local;
    hasLocals |= isLocal;
    hasArrays |= isLocal && !program_.buffer(store.buffer).sizes.empty();
    hasScan |= store.scan.has_value();
    hasInner |= !store.ranges.empty();
    if (isLocal) longest = std::max(longest, extentOf(store.ranges));
    for (const ExprId p : partsOf(store)) {
      const Expr e = program_.expressions[p];
      if (e.op != Op::Reduce) continue;
      const std::vector<RangeId>& free = accesses_.of(p).ranges;
      if (std::all_of(free.begin(), free.end(), [&](RangeId r) { return outer_.contains(r); }))
        longest = std::max(longest, extentOf(e.ranges));
    }
  }
  if (std::optional<CudaPlan> product = planProduct(nest)) return {std::move(*product)};
  if (hasTeams && !hasScan && longest >= kShortRow) {
    const std::optional<RangeId> columns = columnsOf(nest);
    const bool areMany = extentOf(nest.outer) >= planning_.limits.multiprocessors * kManyWindows;
    const bool isPlain = longest <= kMostOfWindow && !hasArrays && !hasInner;
    // Windows that lie in short rows of memory would keep most of a team waiting.
    if (columns || !areMany || !isPlain || !readsWindows(nest)) return {planTeam(nest, columns)};
  }
  return planThreads(nest, !hasLocals && !hasScan && hasInner);
}

}  // namespace graft::codegen
