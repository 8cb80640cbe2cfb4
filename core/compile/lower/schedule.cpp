#include "core/compile/lower/schedule.h"

#include <algorithm>

#include "core/compile/lower/scheduler.h"

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Expr;
using Form = Tensor::Form;

/// Loops shorter than this are not worth taking a dimension apart.
constexpr int64_t fewReaders = 32;

}  // namespace

void Scheduler::run(const std::vector<ScheduledResult>& results) {
  std::vector<Target> targets;
  for (const ScheduledResult& r : results) {
    const Tensor& t = l_[r.tensor];
    const BufferId buffer = l_.program.addBuffer(r.name, t.dtype, t.sizes, loops::Buffer::Role::Output);
    l_.setFastest(buffer, r.strides);
    targets.push_back(planned(r.tensor, buffer));
  }
  for (std::vector<Target>& together : grouped(std::move(targets))) emit(together);
  while (!withParts_.empty()) emit({withParts_.extract(withParts_.begin()).mapped()});
}

// What is read --------------------------------------------------------------------------------------------------------

void Scheduler::collect(ExprId root, std::set<ExprId>& seen, std::set<Request>& found) const {
  std::vector<ExprId> stack{root};
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Expr& e = l_.program.expressions[id];
    if (e.op == Op::Load)
      if (const TensorId t = l_.tensorOfBuffer(e.buffer())) found.insert({t, e.operands});
    stack.insert(stack.end(), e.operands.begin(), e.operands.end());
  }
}

const std::set<RangeId>& Scheduler::rangesIn(ExprId id) {
  if (const auto it = ranges_.find(id); it != ranges_.end()) return it->second;
  const Expr e = l_.pool()[id];
  std::set<RangeId> out;
  if (e.op == Op::Range) out.insert(e.range());
  for (const ExprId o : e.operands) {
    const std::set<RangeId>& more = rangesIn(o);
    out.insert(more.begin(), more.end());
  }
  return ranges_.emplace(id, std::move(out)).first->second;
}

std::set<RangeId> Scheduler::rangesIn(const Index& index) {
  std::set<RangeId> out;
  for (const ExprId e : index) {
    const std::set<RangeId>& more = rangesIn(e);
    out.insert(more.begin(), more.end());
  }
  return out;
}

std::optional<int64_t> Scheduler::most(const std::vector<RangeId>& ranges) const {
  int64_t n = 1;
  for (const RangeId r : ranges) {
    const auto extent = l_.simplifier.bounds(l_.program.range(r).extent).max;
    if (!extent || __builtin_mul_overflow(n, *extent, &n)) return std::nullopt;
  }
  return n;
}

std::optional<int64_t> Scheduler::workOf(ExprId id) {
  if (const auto it = work_.find(id); it != work_.end()) return it->second;
  const Expr e = l_.pool()[id];
  std::optional<int64_t> out = 1;
  for (const ExprId o : e.operands) {
    const std::optional<int64_t> inside = workOf(o);
    out = out && inside ? std::optional(std::max(*out, *inside)) : std::nullopt;
  }
  if (e.op == Op::Reduce && out) {
    const std::optional<int64_t> iterations = most(e.ranges);
    int64_t all = 0;
    const bool isKnown = iterations && !__builtin_mul_overflow(*out, *iterations, &all);
    out = isKnown ? std::optional(all) : std::nullopt;
  }
  work_.emplace(id, out);
  return out;
}

ExprId Scheduler::valueOf(TensorId t, const Index& i) {
  const Form form = l_[t].form;
  return form == Form::Inline || form == Form::Input ? l_.at(t, i) : l_.definition(t, i);
}

std::set<Scheduler::Request> Scheduler::reductionsIn(ExprId value) {
  std::set<ExprId> seen;
  std::set<Request> open, out;
  collect(value, seen, open);
  while (!open.empty()) {
    const Request r = *open.begin();
    open.erase(open.begin());
    if (l_[r.tensor].form == Form::Shared)
      collect(l_.definition(r.tensor, r.index), seen, open);
    else
      out.insert(r);
  }
  return out;
}

bool Scheduler::isInside(const Request& r) const {
  const Sizes& sizes = l_[r.tensor].sizes;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (!l_.simplifier.isAlwaysLess(r.index[k], sizes[k]) ||
        !l_.simplifier.isAlwaysLessOrEqual(l_.integer(0), r.index[k]))
      return false;
  return true;
}

// What runs over what -------------------------------------------------------------------------------------------------

RangeId Scheduler::rangeAt(size_t place, ExprId extent) {
  const auto [at, isNew] = shared_.try_emplace({place, extent});
  if (isNew) at->second = l_.program.addRange("i" + std::to_string(l_.program.ranges.size()), extent);
  return at->second;
}

Domain Scheduler::domainOf(const Sizes& sizes, const std::vector<int64_t>& splits) {
  Domain d;
  loops::Simplifier& s = l_.simplifier;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (l_.isOne(sizes[k])) {
      d.index.push_back(l_.integer(0));
      continue;
    }
    if (splits[k] == 0) {
      d.ranges.push_back(rangeAt(d.ranges.size(), sizes[k]));
      d.index.push_back(l_.pool().range(d.ranges.back()));
      continue;
    }
    const ExprId each = l_.integer(splits[k]);
    const RangeId high = rangeAt(d.ranges.size(), s.floorDivide(sizes[k], each));
    d.ranges.push_back(high);
    const RangeId low = rangeAt(d.ranges.size(), each);
    d.ranges.push_back(low);
    d.index.push_back(s.add(s.multiply(l_.pool().range(high), each), l_.pool().range(low)));
  }
  return d;
}

Target Scheduler::planned(TensorId t, BufferId buffer) {
  const Sizes sizes = l_[t].sizes;
  std::vector<int64_t> splits(sizes.size());
  Target target{.tensor = t, .buffer = buffer};
  for (int round = 0; round < 2; ++round) {
    target.domain = domainOf(sizes, splits);
    const std::set<Request> requests = reductionsIn(valueOf(t, target.domain.index));
    if (round == 0 && findSplits(t, requests, target.domain, splits)) continue;
    chooseOuter(target, requests);
    break;
  }
  return target;
}

bool Scheduler::findSplits(TensorId of, const std::set<Request>& requests, const Domain& domain,
                           std::vector<int64_t>& splits) {
  const Tensor& target = l_[of];
  const Sizes& sizes = target.sizes;
  bool found = false;
  for (const Request& r : requests) {
    if (l_[r.tensor].form != Form::Reduction || !isInside(r)) continue;
    for (const ExprId id : r.index) {
      const Expr e = l_.pool()[id];
      if (e.op != Op::FloorDivide || l_.pool()[e.operands[0]].op != Op::Range) continue;
      const auto each = l_.findNumber(e.operands[1]);
      if (!each || *each < 2 || readersOf(r, domain, *each) < fewReaders) continue;
      for (size_t k = 0; k < sizes.size(); ++k) {
        if (target.form == Form::Scan && k == target.scanDim) continue;
        const auto size = l_.findNumber(sizes[k]);
        if (domain.index[k] != e.operands[0] || !size || *size % *each != 0 || splits[k] != 0) continue;
        splits[k] = *each;
        found = true;
      }
    }
  }
  return found;
}

int64_t Scheduler::readersOf(const Request& r, const Domain& domain, int64_t each) {
  const std::set<RangeId> used = rangesIn(r.index);
  std::vector<RangeId> others;
  for (const RangeId range : domain.ranges)
    if (!used.contains(range)) others.push_back(range);
  const auto n = most(others);
  int64_t readers = 0;
  return n && !__builtin_mul_overflow(*n, each, &readers) ? readers : fewReaders;
}

void Scheduler::chooseOuter(Target& target, const std::set<Request>& requests) {
  const Domain& d = target.domain;
  const std::set<RangeId> all(d.ranges.begin(), d.ranges.end());
  std::map<std::set<RangeId>, int> candidates;
  const auto consider = [&](const Request& r) {
    const Tensor& t = l_[r.tensor];
    std::set<RangeId> outer = rangesIn(r.index);
    if (t.form == Form::Scan)
      for (const RangeId swept : rangesIn(r.index[t.scanDim])) outer.erase(swept);
    const bool isOfDomain = std::includes(all.begin(), all.end(), outer.begin(), outer.end());
    if (isOfDomain) ++candidates[outer];
  };
  for (const Request& r : requests)
    if (l_[r.tensor].form == Form::Reduction || l_[r.tensor].form == Form::Scan) consider(r);
  target.outer = d.ranges;
  if (l_[target.tensor].form == Form::Scan) {
    // What is combined along a range cannot be computed by independent iterations of it.
    const std::set<RangeId> swept = rangesIn(d.index[l_[target.tensor].scanDim]);
    std::erase_if(target.outer, [&](RangeId r) { return swept.contains(r); });
    target.isRow = true;
    return;
  }
  target.isRow = l_[target.tensor].form == Form::Reduction;
  const std::optional<int64_t> work = workOf(valueOf(target.tensor, d.index));
  const std::set<RangeId>* best = nullptr;
  int most = 0;
  for (const auto& [outer, readers] : candidates) {
    if (!isParallelEnough(outer, all, work)) continue;
    if (!best || readers > most || (readers == most && outer.size() > best->size())) {
      best = &outer;
      most = readers;
    }
  }
  if (!best) return;
  target.isRow = true;
  std::erase_if(target.outer, [&](RangeId r) { return !best->contains(r); });
}

bool Scheduler::isParallelEnough(const std::set<RangeId>& outer, const std::set<RangeId>& all,
                                 std::optional<int64_t> work) const {
  std::vector<RangeId> inner;
  for (const RangeId r : all)
    if (!outer.contains(r)) inner.push_back(r);
  const auto iterations = most({outer.begin(), outer.end()});
  if (!iterations || *iterations >= fewIterations) return true;
  const auto elements = most(inner);
  int64_t whole = 0;
  return elements && work && !__builtin_mul_overflow(*elements, *work, &whole) && whole <= l_.machine.rowElements;
}

void schedule(Lowering& l, const std::vector<ScheduledResult>& results) {
  Scheduler(l).run(results);
  joinStatistics(l);
  moveStores(l);
  joinElements(l);
}

}  // namespace graft::lower
