// The nest that stores targets: what it reads of other tensors is computed inside it, kept in a buffer of one
// iteration, or stored ahead by a nest of its own.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/compile/lower/scheduler.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Expr;
using loops::Nest;
using loops::Store;
using Form = Tensor::Form;

/// The largest row that one iteration keeps for itself, in elements.
constexpr int64_t mostLocal = 65536;
/// Each iteration computes again what takes less than this share of its work, rather than wait for a nest that does.
constexpr int64_t cheapShare = 16;

}  // namespace

void Scheduler::emit(const std::vector<Target>& targets) {
  NestState nest;
  nest.outer = {targets.front().outer.begin(), targets.front().outer.end()};
  nest.iterations = product(targets.front().outer);
  nest.isForOthers = std::all_of(targets.begin(), targets.end(), [&](const Target& t) {
    return l_.program.buffer(t.buffer).role == loops::Buffer::Role::Temporary;
  });
  nest.isRow = std::any_of(targets.begin(), targets.end(), [](const Target& t) { return t.isRow; });
  std::vector<ExprId> values;
  std::map<TensorId, std::set<Index>> requests;
  const auto request = [&](ExprId e) {
    std::set<ExprId> seen;
    std::set<Request> found;
    collect(e, seen, found);
    for (const Request& r : found) requests[r.tensor].insert(r.index);
  };
  for (const Target& t : targets)
    if (t.isLocalToo) nest.own.insert(t.tensor);
  for (const Target& t : targets) {
    values.push_back(targetValue(t));
    request(values.back());
    nest.work = std::max(nest.work, workInside(t, values.back(), nest));
  }
  // From the last tensor to the first: what one reads stands before it.
  while (!requests.empty()) {
    const auto last = requests.extract(std::prev(requests.end()));
    const TensorId t = last.key();
    const std::set<Index>& indices = last.mapped();
    Decision d = decide(t, indices, nest);
    if (d.how == Decision::How::Local) {
      request(l_.definition(t, d.index));
    } else if (d.how == Decision::How::Inside) {
      for (const Index& i : indices) request(l_.definition(t, i));
    } else {
      emitTemporary(t, [&](TensorId other) {
        const auto at = requests.find(other);
        return at != requests.end() && decide(other, at->second, nest).how == Decision::How::Temporary;
      });
    }
    nest.decisions.emplace(t, std::move(d));
  }
  write(targets, values, nest);
}

void Scheduler::emitTemporary(TensorId t, const std::function<bool(TensorId)>& isWanted) {
  if (!temporaries_.insert(t).second) return;
  if (const auto at = results_.find(t); at != results_.end()) {
    // A nest has stored it already: the temporary holds it, and the result is a copy, which goes in the end.
    Nest& before = l_.program.nests[at->second.nest];
    Store& made = before.stores[at->second.store];
    Nest copy{before.outer, {made}};
    copy.stores[0].value = l_.pool().load(l_[t].buffer, made.index, l_[t].dtype);
    made.buffer = l_[t].buffer;
    l_.program.nests.push_back(std::move(copy));
    return;
  }
  std::vector<Target> targets{planned(t, l_[t].buffer)};
  // Where each iteration begins with a sum that is wanted, too (a mean's, for what elements are off it by), it stores
  // that sum on the way: what is summed up is read once.
  const ExprId value = valueOf(t, targets.front().domain.index);
  std::set<Request> reads = reductionsIn(value);
  std::erase_if(reads, [&](const Request& r) { return l_[r.tensor].form == Form::Repeated; });
  const TensorId first = reads.empty() ? TensorId() : reads.rbegin()->tensor;
  const bool isReadOnce =
      first && std::ranges::count_if(reads, [&](const Request& r) { return r.tensor == first; }) == 1;
  if (isReadOnce && l_[t].form == Form::Reduction && l_[first].form == Form::Reduction && isInside(*reads.rbegin()) &&
      !temporaries_.contains(first) && isWanted(first) && !isNeededEarlier(first, value)) {
    Target also = planned(first, l_[first].buffer);
    const bool isOneNumber = also.domain.ranges.size() == also.outer.size();
    if (isOneNumber && also.outer == targets.front().outer && also.domain.index == reads.rbegin()->index) {
      also.isLocalToo = true;
      temporaries_.insert(first);
      targets.push_back(std::move(also));
    }
  }
  if (auto result = withParts_.extract(t)) targets.push_back(std::move(result.mapped()));
  emit(targets);
}

bool Scheduler::isNeededEarlier(TensorId t, ExprId value) {
  std::set<ExprId> seen, seenBefore;
  std::set<Request> inside, before;
  collect(value, seen, inside);
  // From the last tensor to the first: what one is made of stands before it.
  while (!inside.empty()) {
    const Request r = inside.extract(std::prev(inside.end())).value();
    if (!(t < r.tensor)) continue;
    const ExprId made = l_.definition(r.tensor, r.index);
    const Form form = l_[r.tensor].form;
    const bool isStoredBefore =
        l_[r.tensor].isResult || form == Form::Repeated || form == Form::Reduction || form == Form::Scan;
    if (isStoredBefore)
      collect(made, seenBefore, before);
    else
      collect(made, seen, inside);
  }
  while (!before.empty()) {
    const Request r = before.extract(std::prev(before.end())).value();
    if (r.tensor == t) return true;
    if (t < r.tensor) collect(l_.definition(r.tensor, r.index), seenBefore, before);
  }
  return false;
}

ExprId Scheduler::targetValue(const Target& t) {
  if (t.isLocalToo || (l_[t.tensor].form == Form::Scan && !isDirectScan(t))) return l_.at(t.tensor, t.domain.index);
  return valueOf(t.tensor, t.domain.index);
}

ExprId Scheduler::product(const std::vector<RangeId>& ranges) {
  Sizes extents;
  for (const RangeId r : ranges) extents.push_back(l_.program.range(r).extent);
  return l_.product(extents);
}

int64_t Scheduler::workInside(const Target& t, ExprId value, const NestState& nest) {
  std::vector<RangeId> inner;
  for (const RangeId r : t.domain.ranges)
    if (!nest.outer.contains(r)) inner.push_back(r);
  const auto elements = most(inner), work = workOf(value);
  int64_t whole = 1;
  return elements && work && !__builtin_mul_overflow(*elements, *work, &whole) ? whole : 1;
}

Scheduler::Decision Scheduler::decide(TensorId t, const std::set<Index>& indices, const NestState& nest) {
  using How = Decision::How;
  const Form form = l_[t].form;
  Decision d;
  if (isStored(t, nest)) {
    d.how = How::Temporary;
    return d;
  }
  // Elsewhere, but stored already
  if ((form == Form::Shared || form == Form::Repeated) &&
      std::all_of(indices.begin(), indices.end(), [&](const Index& i) {
        const Expr& e = l_.program.expressions[l_.definition(t, i)];
        const TensorId source = e.op == Op::Load ? l_.tensorOfBuffer(e.buffer()) : TensorId();
        return source && isStored(source, nest);
      }))
    return d;
  const bool isWorthARow = indices.size() > 1 && (l_[t].cost > cheapCost || l_[t].isResult);
  if (form == Form::Shared && !nest.isRow && !isWorthARow) return d;
  if (findLocal(t, indices, nest, form != Form::Shared || isWorthARow, d)) return d;
  d.how = form == Form::Shared ? How::Inside : How::Temporary;
  return d;
}

bool Scheduler::findLocal(TensorId t, const std::set<Index>& indices, const NestState& nest, bool mayBeRow,
                          Decision& d) {
  const Tensor tensor = l_[t];
  const size_t rank = tensor.sizes.size();
  d.swept.assign(rank, false);
  d.index = *indices.begin();
  loops::Simplifier& s = l_.simplifier;
  for (size_t k = 0; k < rank; ++k) {
    for (const Index& i : indices) {
      const std::set<RangeId>& used = rangesIn(i[k]);
      const bool isOuter = std::includes(nest.outer.begin(), nest.outer.end(), used.begin(), used.end());
      // A load in the index may read what is there in some iterations only.
      if (!isOuter || hasLoad(i[k])) d.swept[k] = true;
      if (i[k] != d.index[k]) d.swept[k] = true;
    }
    if (tensor.form == Form::Scan && k == tensor.scanDim && !l_.isOne(tensor.sizes[k])) d.swept[k] = true;
    if (l_.isOne(tensor.sizes[k])) {
      d.swept[k] = false;
      d.index[k] = l_.integer(0);
    }
  }
  ExprId computed = l_.integer(1), kept = l_.integer(1);
  for (size_t k = 0; k < rank; ++k) {
    (d.swept[k] ? kept : computed) = s.multiply(d.swept[k] ? kept : computed, tensor.sizes[k]);
    if (d.swept[k]) continue;
    // Under the condition of a choice, an index may be one that is not there; a local is computed in any case.
    if (!s.isAlwaysLess(d.index[k], tensor.sizes[k]) || !s.isAlwaysLessOrEqual(l_.integer(0), d.index[k])) return false;
  }
  const bool isRow = std::find(d.swept.begin(), d.swept.end(), true) != d.swept.end();
  if (isRow && (tensor.form == Form::Reduction || !mayBeRow)) return false;
  if (!s.isAlwaysLessOrEqual(nest.iterations, computed) && (isRow || !isCheap(t, d.index, nest))) return false;
  if (const auto most = s.bounds(kept).max; !most || *most > mostLocal || *most == 0) return false;
  d.how = Decision::How::Local;
  Sizes sizes;
  for (size_t k = 0; k < rank; ++k) {
    if (!d.swept[k]) continue;
    sizes.push_back(tensor.sizes[k]);
    d.ranges.push_back(l_.program.addRange("j" + std::to_string(l_.program.ranges.size()), tensor.sizes[k]));
    d.index[k] = l_.pool().range(d.ranges.back());
    if (tensor.form == Form::Scan && k == tensor.scanDim) d.scan = d.ranges.back();
  }
  d.local = l_.program.addBuffer(fmt::format("{}_{}", tensor.name, l_.program.buffers.size()),
                                 computeType(tensor.dtype), std::move(sizes), loops::Buffer::Role::Local);
  return true;
}

bool Scheduler::isStored(TensorId t, const NestState& nest) const {
  return !nest.own.contains(t) && (temporaries_.contains(t) || (l_[t].isResult && nest.isForOthers));
}

bool Scheduler::isCheap(TensorId t, const Index& index, const NestState& nest) {
  const std::optional<int64_t> work = workOf(l_.definition(t, index));
  return work && *work <= nest.work / cheapShare;
}

bool Scheduler::hasLoad(ExprId id) const {
  const Expr& e = l_.program.expressions[id];
  if (e.op == Op::Load) return true;
  return std::any_of(e.operands.begin(), e.operands.end(), [&](ExprId o) { return hasLoad(o); });
}

void Scheduler::write(const std::vector<Target>& targets, const std::vector<ExprId>& values, NestState& nest) {
  Nest out;
  out.outer = targets.front().outer;
  for (auto& [t, d] : nest.decisions) {
    if (d.how != Decision::How::Local) continue;
    Store store;
    store.buffer = d.local;
    store.ranges = d.ranges;
    store.scan = d.scan;
    store.scanKind = l_[t].scanKind;
    for (size_t k = 0; k < d.index.size(); ++k)
      if (d.swept[k]) store.index.push_back(d.index[k]);
    store.value = rewrite(l_.definition(t, d.index), nest);
    out.stores.push_back(std::move(store));
  }
  for (size_t k = 0; k < targets.size(); ++k) {
    const Target& t = targets[k];
    Store store;
    store.buffer = t.buffer;
    store.index = t.domain.index;
    for (const RangeId r : t.domain.ranges)
      if (!nest.outer.contains(r)) store.ranges.push_back(r);
    const loops::ExprPool::MadeFor origin(l_.pool(), l_.pool().origin(values[k]));
    const ExprId value = isMade(t, nest) ? l_.at(t.tensor, t.domain.index) : values[k];
    store.value = l_.pool().cast(rewrite(value, nest), l_.program.buffer(t.buffer).dtype);
    if (isDirectScan(t)) setScan(store, t.tensor, t.domain.index);
    out.stores.push_back(std::move(store));
  }
  dropUnread(out);
  for (const Target& t : targets) {
    if (!l_[t.tensor].isResult || temporaries_.contains(t.tensor)) continue;
    const auto at =
        std::find_if(out.stores.begin(), out.stores.end(), [&](const Store& s) { return s.buffer == t.buffer; });
    results_.emplace(t.tensor, Stored{l_.program.nests.size(), static_cast<size_t>(at - out.stores.begin())});
  }
  l_.program.nests.push_back(std::move(out));
}

ExprId Scheduler::rewrite(ExprId id, NestState& nest) {
  if (const auto it = nest.rewritten.find(id); it != nest.rewritten.end()) return it->second;
  const loops::ExprPool::MadeFor origin(l_.pool(), l_.pool().origin(id));
  Expr e = l_.pool()[id];
  ExprId out;
  const TensorId t = e.op == Op::Load ? l_.tensorOfBuffer(e.buffer()) : TensorId();
  const auto decided = t ? nest.decisions.find(t) : nest.decisions.end();
  if (t && decided != nest.decisions.end() && decided->second.how != Decision::How::Temporary) {
    const Decision& d = decided->second;
    if (d.how == Decision::How::Inside) {
      out = rewrite(l_.definition(t, e.operands), nest);
    } else {
      Index kept;
      for (size_t k = 0; k < e.operands.size(); ++k)
        if (d.swept[k]) kept.push_back(rewrite(e.operands[k], nest));
      out = l_.pool().load(d.local, std::move(kept), e.dtype);
    }
  } else {
    for (ExprId& o : e.operands) o = rewrite(o, nest);
    out = l_.pool().add(std::move(e));
  }
  nest.rewritten.emplace(id, out);
  l_.setComputed(id, out);
  return out;
}

bool Scheduler::isMade(const Target& t, const NestState& nest) const {
  if (!l_[t.tensor].isResult || t.buffer == l_[t.tensor].buffer) return false;
  if (temporaries_.contains(t.tensor)) return true;
  const auto at = nest.decisions.find(t.tensor);
  if (at == nest.decisions.end() || at->second.how != Decision::How::Local) return false;
  const Decision& d = at->second;
  for (size_t k = 0; k < d.index.size(); ++k)
    if (!d.swept[k] && d.index[k] != t.domain.index[k]) return false;
  return true;
}

bool Scheduler::isDirectScan(const Target& t) const {
  return l_[t.tensor].form == Form::Scan && l_.program.buffer(t.buffer).dtype == computeType(l_[t.tensor].dtype);
}

void Scheduler::setScan(Store& store, TensorId t, const Index& index) {
  const Expr& along = l_.pool()[index[l_[t].scanDim]];
  if (along.op == Op::Range) store.scan = along.range();
  store.scanKind = l_[t].scanKind;
}

void Scheduler::dropUnread(Nest& nest) {
  std::set<BufferId> isRead;
  std::set<ExprId> seen;
  const auto note = [&](const auto& self, ExprId id) -> void {
    if (!seen.insert(id).second) return;
    const Expr& e = l_.program.expressions[id];
    if (e.op == Op::Load) isRead.insert(e.buffer());
    for (const ExprId operand : e.operands) self(self, operand);
  };
  for (size_t i = nest.stores.size(); i-- > 0;) {
    const Store& s = nest.stores[i];
    if (l_.program.buffer(s.buffer).role == loops::Buffer::Role::Local && !isRead.contains(s.buffer)) {
      nest.stores.erase(nest.stores.begin() + static_cast<long>(i));
      continue;
    }
    note(note, s.value);
    for (const ExprId index : s.index) note(note, index);
  }
}

}  // namespace graft::lower
