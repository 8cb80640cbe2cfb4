// Which targets one nest stores, and over which ranges each of them goes there.
#include <algorithm>
#include <iterator>

#include "core/compile/lower/places.h"
#include "core/compile/lower/scheduler.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Expr;

}  // namespace

std::vector<std::vector<Target>> Scheduler::grouped(std::vector<Target> targets) {
  std::vector<std::vector<Target>> groups;
  const auto sameOuter = [&](const Target& t) {
    return std::find_if(groups.begin(), groups.end(),
                        [&](const std::vector<Target>& g) { return g.front().outer == t.outer; });
  };
  std::vector<Target> flat;
  if (l_.machine.isGpu && hasColumnParts()) {
    const std::vector<Target> all = targets;
    const std::vector<TensorId> parts = columnPartsOf(all);
    std::erase_if(targets, [&](const Target& t) { return !t.isRow && joinsParts(t, all, parts); });
  }
  for (Target& t : targets) {
    if (!t.isRow) {
      flat.push_back(std::move(t));
      continue;
    }
    auto at = sameOuter(t);
    if (at == groups.end())
      at = std::find_if(groups.begin(), groups.end(),
                        [&](const std::vector<Target>& g) { return g.front().isRow && takesRows(t, g.front()); });
    if (at != groups.end())
      at->push_back(std::move(t));
    else
      groups.push_back({std::move(t)});
  }
  for (Target& t : flat) {
    auto at = sameOuter(t);
    if (at == groups.end())
      at = std::find_if(groups.begin(), groups.end(),
                        [&](const std::vector<Target>& g) { return g.front().isRow && joins(t, g.front()); });
    if (at != groups.end())
      at->push_back(std::move(t));
    else
      groups.push_back({std::move(t)});
  }
  return groups;
}

Scheduler::Reads Scheduler::readsOf(const Target& t, bool throughParts) {
  Reads out;
  std::set<ExprId> seen;
  std::vector<ExprId> stack{valueOf(t.tensor, t.domain.index)};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Expr e = l_.pool()[id];
    if (e.op == Op::Load) {
      if (const TensorId inner = l_.tensorOfBuffer(e.buffer())) {
        out.tensors.insert({inner, e.operands});
        if (throughParts || l_[inner].columnParts == 0) stack.push_back(l_.definition(inner, e.operands));
      } else {
        out.inputs.insert(e.buffer());
        out.loads.emplace_back(e.buffer(), e.operands);
      }
    }
    stack.insert(stack.end(), e.operands.begin(), e.operands.end());
  }
  return out;
}

bool Scheduler::hasColumnParts() const {
  for (size_t i = 0; i < l_.tensorCount(); ++i)
    if (l_[TensorId(static_cast<uint32_t>(i))].columnParts > 0) return true;
  return false;
}

std::vector<TensorId> Scheduler::columnPartsOf(const std::vector<Target>& targets) {
  std::vector<TensorId> out;
  for (const Target& t : targets)
    for (const Request& r : readsOf(t, true).tensors)
      if (l_[r.tensor].columnParts > 0 && std::find(out.begin(), out.end(), r.tensor) == out.end())
        out.push_back(r.tensor);
  return out;
}

bool Scheduler::joinsParts(const Target& t, const std::vector<Target>& targets, const std::vector<TensorId>& parts) {
  const auto elements = most(t.domain.ranges);
  for (const Target& other : targets)
    if (other.tensor != t.tensor && most(other.domain.ranges) >= elements)
      for (const Request& r : readsOf(other, false).tensors)
        if (r.tensor == t.tensor) return false;
  return std::any_of(parts.begin(), parts.end(), [&](TensorId p) { return joinsPartsOf(t, p); });
}

bool Scheduler::joinsPartsOf(const Target& t, TensorId sums) {
  if (withParts_.contains(sums) || l_[sums].isOfRows) return false;
  const Target parts = planned(sums, l_[sums].buffer);
  const Expr sum = l_.pool()[valueOf(sums, parts.domain.index)];
  if (parts.outer != parts.domain.ranges || sum.op != Op::Reduce) return false;
  const Index& index = parts.domain.index;
  const auto columns = rangesIn(Index(index.begin() + static_cast<std::ptrdiff_t>(l_[sums].columnParts), index.end()));
  for (const Request& read : readsOf(parts, true).tensors) {
    Target joined = t;
    if (read.tensor != t.tensor || !takesDomainOfParts(joined, read.index, parts, sum.ranges) ||
        !liesAlong(joined, columns))
      continue;
    withParts_.emplace(sums, std::move(joined));
    return true;
  }
  return false;
}

bool Scheduler::liesAlong(const Target& t, const std::set<RangeId>& ranges) {
  const auto all = most(t.domain.ranges);
  for (const auto& [buffer, index] : readsOf(t, false).loads) {
    const std::set<RangeId> over = rangesIn(index);
    const auto read = most({over.begin(), over.end()});
    if (index.empty() || !read || !all || *read * 8 < *all) continue;
    const std::set<RangeId>& used = rangesIn(index.at(l_[l_.inputOf(buffer)].fastest.value_or(index.size() - 1)));
    if (std::none_of(used.begin(), used.end(), [&](RangeId r) { return ranges.contains(r); })) return false;
  }
  return true;
}

bool Scheduler::takesDomainOfParts(Target& t, const Index& index, const Target& parts,
                                   const std::vector<RangeId>& summed) {
  std::unordered_map<RangeId, ExprId> own;
  Domain d{parts.domain.ranges, {}};
  for (const RangeId r : summed) {
    d.ranges.push_back(rangeAt(200 + d.ranges.size(), l_.program.range(r).extent));
    own.emplace(r, l_.pool().range(d.ranges.back()));
  }
  for (const ExprId e : index) d.index.push_back(l_.simplifier.substitute(e, own));
  if (!goesOverAll(l_, d.ranges, d.index, l_[t.tensor].sizes)) return false;
  t.domain = std::move(d);
  t.outer = parts.outer;
  return true;
}

bool Scheduler::joins(Target& t, const Target& row) {
  if (!joinsInParallel(t, row)) return false;
  const Reads theirs = readsOf(row, false);
  const std::set<RangeId> outer(row.outer.begin(), row.outer.end());
  for (const Request& r : theirs.tensors)
    if (r.tensor == t.tensor && takesDomain(t, r.index, row.outer)) return true;
  const std::vector<RangeId>& mine = t.domain.ranges;
  if (!std::all_of(outer.begin(), outer.end(),
                   [&](RangeId r) { return std::find(mine.begin(), mine.end(), r) != mine.end(); }))
    return false;
  const Reads ours = readsOf(t, false);
  if (!std::any_of(ours.inputs.begin(), ours.inputs.end(), [&](BufferId b) { return theirs.inputs.contains(b); }))
    return false;
  t.outer = row.outer;
  return true;
}

bool Scheduler::takesRows(Target& t, const Target& row) {
  if (l_.machine.isGpu || l_[t.tensor].form == Tensor::Form::Scan) return false;
  const std::set<Request> mine = reductionsIn(valueOf(t.tensor, t.domain.index)),
                          theirs = reductionsIn(valueOf(row.tensor, row.domain.index));
  for (const Request& m : mine)
    for (const Request& r : theirs) {
      Target turned = t;
      if (m.tensor != r.tensor || !takesRanges(turned, m.index, r.index, row)) continue;
      const std::set<Request> reads = reductionsIn(valueOf(turned.tensor, turned.domain.index));
      if (!std::includes(theirs.begin(), theirs.end(), reads.begin(), reads.end())) continue;
      t = std::move(turned);
      return true;
    }
  return false;
}

bool Scheduler::takesRanges(Target& t, const Index& from, const Index& to, const Target& row) {
  std::map<RangeId, RangeId> taken;
  std::set<RangeId> used;
  for (size_t k = 0; k < from.size(); ++k) {
    const Expr a = l_.pool()[from[k]], b = l_.pool()[to[k]];
    if (a.op != Op::Range || b.op != Op::Range) {
      if (from[k] != to[k]) return false;
      continue;
    }
    if (l_.program.range(a.range()).extent != l_.program.range(b.range()).extent) return false;
    const auto [at, isNew] = taken.try_emplace(a.range(), b.range());
    if (at->second != b.range() || (isNew && !used.insert(b.range()).second)) return false;
  }
  std::unordered_map<RangeId, ExprId> values;
  Domain d;
  for (const RangeId r : t.domain.ranges) {
    const auto isFree = [&](RangeId other) {
      return !used.contains(other) && l_.program.range(other).extent == l_.program.range(r).extent;
    };
    if (!taken.contains(r)) {
      const auto other = std::find_if(row.domain.ranges.begin(), row.domain.ranges.end(), isFree);
      if (other == row.domain.ranges.end()) return false;
      taken.emplace(r, *other);
      used.insert(*other);
    }
    d.ranges.push_back(taken.at(r));
    values.emplace(r, l_.pool().range(taken.at(r)));
  }
  if (used.size() != d.ranges.size()) return false;
  for (const RangeId r : row.outer)
    if (std::find(d.ranges.begin(), d.ranges.end(), r) == d.ranges.end()) return false;
  for (const ExprId e : t.domain.index) d.index.push_back(l_.simplifier.substitute(e, values));
  t.domain = std::move(d);
  t.outer = row.outer;
  return true;
}

bool Scheduler::joinsInParallel(const Target& t, const Target& row) const {
  constexpr int64_t fewOnGpu = 64;
  const auto iterations = most(row.outer), elements = most(t.domain.ranges);
  if (!iterations || !elements || *iterations >= (l_.machine.isGpu ? fewOnGpu : fewIterations)) return true;
  return *elements / std::max<int64_t>(1, *iterations) <= l_.machine.rowElements;
}

bool Scheduler::takesDomain(Target& t, const Index& index, const std::vector<RangeId>& outer) {
  Domain d;
  std::set<RangeId> used;
  const Sizes& sizes = l_[t.tensor].sizes;
  for (size_t k = 0; k < index.size(); ++k) {
    if (l_.isOne(sizes[k])) {
      d.index.push_back(l_.integer(0));
      continue;
    }
    const Expr& e = l_.pool()[index[k]];
    const bool isOuter = e.op == Op::Range && std::find(outer.begin(), outer.end(), e.range()) != outer.end();
    if (isOuter && (l_.program.range(e.range()).extent != sizes[k] || !used.insert(e.range()).second)) return false;
    const RangeId range = isOuter ? e.range() : rangeAt(100 + k, sizes[k]);
    d.ranges.push_back(range);
    d.index.push_back(l_.pool().range(range));
  }
  if (used.size() != outer.size()) return false;
  t.domain = std::move(d);
  t.outer = outer;
  return true;
}

}  // namespace graft::lower
