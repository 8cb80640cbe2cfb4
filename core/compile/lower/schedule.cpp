#include "core/compile/lower/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <set>

namespace graft::lower {
namespace {

using loops::BufferId;
using loops::Expr;
using loops::Nest;
using loops::Store;
using Form = Tensor::Form;

/// The largest row that one iteration keeps for itself, in elements.
constexpr int64_t mostLocal = 65536;
/// Loops shorter than this are not worth taking a dimension apart.
constexpr int64_t fewReaders = 32;
/// Each iteration computes again what takes less than this share of its work, rather than wait for a nest that does.
constexpr int64_t cheapShare = 16;

/// The loops over one tensor that is stored: one for each dimension other than 1, two where a size is taken apart.
struct Domain {
  std::vector<RangeId> ranges;  ///< the last one fastest
  Index index;                  ///< of the tensor, of these ranges
};

/// A tensor to be stored, and over what.
struct Target {
  TensorId tensor;
  BufferId buffer;
  Domain domain = {};
  std::vector<RangeId> outer = {};  ///< of the domain's
  bool isRow = false;               ///< reductions decide what is outer
  bool isLocalToo = false;          ///< another target of its nest reads each element where it is made
};

class Scheduler {
 public:
  explicit Scheduler(Lowering& l) : l_(l) {}

  void run(const std::vector<ScheduledResult>& results) {
    std::vector<Target> targets;
    for (const ScheduledResult& r : results) {
      const Tensor& t = l_[r.tensor];
      const BufferId buffer = l_.program.addBuffer(r.name, t.dtype, t.sizes, loops::Buffer::Role::Output);
      targets.push_back(planned(r.tensor, buffer));
    }
    for (std::vector<Target>& together : grouped(std::move(targets))) emit(together);
    while (!withParts_.empty()) emit({withParts_.extract(withParts_.begin()).mapped()});
  }

 private:
  // What is read ------------------------------------------------------------------------------------------------

  struct Request {
    TensorId tensor;
    Index index;
    auto operator<=>(const Request&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
  };

  /// Adds the loads of whole tensors in an expression.
  void collect(ExprId root, std::set<ExprId>& seen, std::set<Request>& found) const {
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

  /// The ranges in an expression, those that its reductions bind among them.
  const std::set<RangeId>& rangesIn(ExprId id) {
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
  std::set<RangeId> rangesIn(const Index& index) {
    std::set<RangeId> out;
    for (const ExprId e : index) {
      const std::set<RangeId>& more = rangesIn(e);
      out.insert(more.begin(), more.end());
    }
    return out;
  }

  // What runs over what -------------------------------------------------------------------------------------------

  /// The same range for the same place and extent, so that stores of one nest share their loops.
  RangeId rangeAt(size_t place, ExprId extent) {
    const auto [at, isNew] = shared_.try_emplace({place, extent});
    if (isNew) at->second = l_.program.addRange("i" + std::to_string(l_.program.ranges.size()), extent);
    return at->second;
  }

  /// `splits`: by dimension, how many neighbours make one index of the first range of two; 0: one range.
  Domain domainOf(const Sizes& sizes, const std::vector<int64_t>& splits) {
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

  /// At most how many iterations; nothing where that is not known.
  std::optional<int64_t> most(const std::vector<RangeId>& ranges) const {
    int64_t n = 1;
    for (const RangeId r : ranges) {
      const auto extent = l_.simplifier.bounds(l_.program.range(r).extent).max;
      if (!extent || __builtin_mul_overflow(n, *extent, &n)) return std::nullopt;
    }
    return n;
  }

  /// At most how many elements an expression's reductions combine for one value; 1 without reductions. Nothing where
  /// that is not known. What is loaded counts as one.
  std::optional<int64_t> workOf(ExprId id) {
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

  ExprId product(const std::vector<RangeId>& ranges) {
    Sizes extents;
    for (const RangeId r : ranges) extents.push_back(l_.program.range(r).extent);
    return l_.product(extents);
  }

  /// What is stored for the index: a reduction or a scan itself, not a load of it.
  ExprId valueOf(TensorId t, const Index& i) {
    const Form form = l_[t].form;
    return form == Form::Inline || form == Form::Input ? l_.at(t, i) : l_.definition(t, i);
  }

  /// Reductions and scans that an expression reads, with cheap producers computed inside it.
  std::set<Request> reductionsIn(ExprId value) {
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

  Target planned(TensorId t, BufferId buffer) {
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

  /// A statistic for each k neighbours of a dimension (GroupNorm's channels): the dimension is taken apart, so that the
  /// statistic's own index is a range. One that is scanned stays whole.
  bool findSplits(TensorId of, const std::set<Request>& requests, const Domain& domain, std::vector<int64_t>& splits) {
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

  /// How many elements of the domain read one place, with `each` neighbours among them.
  int64_t readersOf(const Request& r, const Domain& domain, int64_t each) {
    const std::set<RangeId> used = rangesIn(r.index);
    std::vector<RangeId> others;
    for (const RangeId range : domain.ranges)
      if (!used.contains(range)) others.push_back(range);
    const auto n = most(others);
    int64_t readers = 0;
    return n && !__builtin_mul_overflow(*n, each, &readers) ? readers : fewReaders;
  }

  /// Whether the place exists whatever conditions stand around the load.
  bool isInside(const Request& r) const {
    const Sizes& sizes = l_[r.tensor].sizes;
    for (size_t k = 0; k < sizes.size(); ++k)
      if (!l_.simplifier.isAlwaysLess(r.index[k], sizes[k]) ||
          !l_.simplifier.isAlwaysLessOrEqual(l_.integer(0), r.index[k]))
        return false;
    return true;
  }

  void chooseOuter(Target& target, const std::set<Request>& requests) {
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

  /// `work`: of one element.
  bool isParallelEnough(const std::set<RangeId>& outer, const std::set<RangeId>& all,
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

  /// Targets that one nest computes: those with the same outer ranges, and pointwise ones over all ranges of a row
  /// kernel that reads what they read.
  std::vector<std::vector<Target>> grouped(std::vector<Target> targets) {
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
      const auto at = sameOuter(t);
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

  /// What a target needs, through everything between: the inputs, and the places of tensors on the way.
  struct Reads {
    std::set<BufferId> inputs;
    std::vector<std::pair<BufferId, Index>> loads;  ///< of inputs
    std::set<Request> tensors;
  };
  /// `throughParts`: what parts of columns are made of, too, though another nest makes them.
  Reads readsOf(const Target& t, bool throughParts) {
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

  bool hasColumnParts() const {
    for (size_t i = 0; i < l_.tensorCount(); ++i)
      if (l_[TensorId(static_cast<uint32_t>(i))].columnParts > 0) return true;
    return false;
  }

  /// The parts of columns that targets read, through everything between.
  std::vector<TensorId> columnPartsOf(const std::vector<Target>& targets) {
    std::vector<TensorId> out;
    for (const Target& t : targets)
      for (const Request& r : readsOf(t, true).tensors)
        if (l_[r.tensor].columnParts > 0 && std::find(out.begin(), out.end(), r.tensor) == out.end())
          out.push_back(r.tensor);
    return out;
  }

  /// Whether one of the targets sums up this one's columns in some of those parts: the nest that makes them stores it
  /// on the way, so that what both are made of is read once. Not where another target goes over all of it in any case,
  /// nor where what it is made of lies across the columns, and needs tiles to be turned.
  bool joinsParts(const Target& t, const std::vector<Target>& targets, const std::vector<TensorId>& parts) {
    const auto elements = most(t.domain.ranges);
    for (const Target& other : targets)
      if (other.tensor != t.tensor && most(other.domain.ranges) >= elements)
        for (const Request& r : readsOf(other, false).tensors)
          if (r.tensor == t.tensor) return false;
    return std::any_of(parts.begin(), parts.end(), [&](TensorId p) { return joinsPartsOf(t, p); });
  }

  bool joinsPartsOf(const Target& t, TensorId sums) {
    if (withParts_.contains(sums) || l_[sums].isOfRows) return false;
    const Target parts = planned(sums, l_[sums].buffer);
    const Expr sum = l_.pool()[valueOf(sums, parts.domain.index)];
    if (parts.outer != parts.domain.ranges || sum.op != Op::Reduce) return false;
    const Index& index = parts.domain.index;
    const auto columns =
        rangesIn(Index(index.begin() + static_cast<std::ptrdiff_t>(l_[sums].columnParts), index.end()));
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

  /// Whether neighbours of what a target is made of are neighbours along one of these ranges. Small tensors do not
  /// count.
  bool liesAlong(const Target& t, const std::set<RangeId>& ranges) {
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

  /// The parts' ranges, and those of their sum as loops of the target's own.
  bool takesDomainOfParts(Target& t, const Index& index, const Target& parts, const std::vector<RangeId>& summed) {
    std::unordered_map<RangeId, ExprId> own;
    Domain d{parts.domain.ranges, {}};
    for (const RangeId r : summed) {
      d.ranges.push_back(rangeAt(200 + d.ranges.size(), l_.program.range(r).extent));
      own.emplace(r, l_.pool().range(d.ranges.back()));
    }
    for (const ExprId e : index) d.index.push_back(l_.simplifier.substitute(e, own));
    if (!goesOverAll(d, l_[t.tensor].sizes)) return false;
    t.domain = std::move(d);
    t.outer = parts.outer;
    return true;
  }

  /// Whether the domain has each element of a tensor of those sizes once: where the element lies, row by row, is a sum
  /// of its ranges, each one's step as large as what the smaller ones cover.
  bool goesOverAll(const Domain& d, const Sizes& sizes) {
    loops::Simplifier& s = l_.simplifier;
    ExprId place = l_.integer(0);
    for (size_t k = 0; k < sizes.size(); ++k) place = s.add(s.multiply(place, sizes[k]), d.index[k]);
    std::map<ExprId, int64_t> steps;
    if (!addSteps(place, 1, steps)) return false;
    // n * (x / n) + x % n is x.
    for (bool isMore = true; isMore;) {
      isMore = false;
      for (const auto& [e, step] : steps) {
        const Expr low = l_.pool()[e];
        const auto n = low.op == Op::Remainder ? l_.findNumber(low.operands[1]) : std::nullopt;
        if (!n) continue;
        const auto high = steps.find(s.floorDivide(low.operands[0], low.operands[1]));
        if (high == steps.end() || high->second != step * *n) continue;
        const int64_t each = step;
        steps.erase(high);
        steps.erase(steps.find(e));
        if (!addSteps(low.operands[0], each, steps)) return false;
        isMore = true;
        break;
      }
    }
    std::vector<std::pair<int64_t, int64_t>> radix;  // step and extent
    for (const RangeId r : d.ranges) {
      const auto step = steps.extract(l_.pool().range(r));
      const auto extent = l_.findNumber(l_.program.range(r).extent);
      if (step.empty() || !extent) return false;
      radix.emplace_back(step.mapped(), *extent);
    }
    std::sort(radix.begin(), radix.end());
    int64_t covered = 1;
    for (const auto& [step, extent] : radix)
      if (step != covered || __builtin_mul_overflow(covered, extent, &covered)) return false;
    return steps.empty() && l_.findNumber(l_.product(sizes)) == covered;
  }

  /// An index as a sum of steps along ranges and what else it is made of.
  bool addSteps(ExprId e, int64_t by, std::map<ExprId, int64_t>& steps) const {
    const Expr& x = l_.program.expressions[e];
    const auto number = l_.findNumber(e);
    if (number) return *number == 0;
    if (x.op == Op::Add) return addSteps(x.operands[0], by, steps) && addSteps(x.operands[1], by, steps);
    if (x.op == Op::Multiply)
      for (const size_t k : {0u, 1u})
        if (const auto n = l_.findNumber(x.operands[k])) return addSteps(x.operands[1 - k], by * *n, steps);
    steps[e] += by;
    return true;
  }

  /// Whether a pointwise target can be stored by the iterations of a row kernel: it is one of the kernel's operands on
  /// the way, or reads what the kernel reads over the kernel's own ranges. Gives it the domain for that.
  bool joins(Target& t, const Target& row) {
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

  /// Whether a kernel's iterations are enough to store so many elements. One sum over what is stored, too, is one
  /// iteration, and one thread's or one block's.
  bool joinsInParallel(const Target& t, const Target& row) const {
    constexpr int64_t fewOnGpu = 64;
    const auto iterations = most(row.outer), elements = most(t.domain.ranges);
    if (!iterations || !elements || *iterations >= (l_.machine.isGpu ? fewOnGpu : fewIterations)) return true;
    return *elements / std::max<int64_t>(1, *iterations) <= l_.machine.rowElements;
  }

  /// The outer ranges as they stand in the index by which the row kernel reads the tensor, and a loop for each other
  /// dimension.
  bool takesDomain(Target& t, const Index& index, const std::vector<RangeId>& outer) {
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

  // Nests -----------------------------------------------------------------------------------------------------------

  /// What becomes of a tensor in one nest.
  struct Decision {
    enum class How { Inside, Local, Temporary } how = How::Inside;
    BufferId local;
    std::vector<bool> swept;  ///< of Local: the dimensions that its buffer has
    Index index;              ///< of Local: what is computed
    std::vector<RangeId> ranges;
    std::optional<RangeId> scan;
  };
  struct NestState {
    std::set<RangeId> outer;
    std::set<TensorId> own;                   ///< targets that are locals too
    bool isRow = false, isForOthers = false;  ///< it stores temporaries alone
    ExprId iterations;
    int64_t work = 1;  ///< at least, of one iteration
    std::map<TensorId, Decision> decisions;
    std::unordered_map<ExprId, ExprId> rewritten;
  };

  void emit(const std::vector<Target>& targets) {
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

  /// Of one iteration, to store a target; 1 where that is not known.
  int64_t workInside(const Target& t, ExprId value, const NestState& nest) {
    std::vector<RangeId> inner;
    for (const RangeId r : t.domain.ranges)
      if (!nest.outer.contains(r)) inner.push_back(r);
    const auto elements = most(inner), work = workOf(value);
    int64_t whole = 1;
    return elements && work && !__builtin_mul_overflow(*elements, *work, &whole) ? whole : 1;
  }

  void write(const std::vector<Target>& targets, const std::vector<ExprId>& values, NestState& nest) {
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

  /// Whether a result is there already: an earlier nest has stored it for others, or it is a row of this nest.
  bool isMade(const Target& t, const NestState& nest) const {
    if (!l_[t.tensor].isResult || t.buffer == l_[t.tensor].buffer) return false;
    if (temporaries_.contains(t.tensor)) return true;
    const auto at = nest.decisions.find(t.tensor);
    if (at == nest.decisions.end() || at->second.how != Decision::How::Local) return false;
    const Decision& d = at->second;
    for (size_t k = 0; k < d.index.size(); ++k)
      if (!d.swept[k] && d.index[k] != t.domain.index[k]) return false;
    return true;
  }

  /// Without the locals that nothing in the nest reads.
  void dropUnread(Nest& nest) {
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

  /// Whether the store itself combines what it writes.
  bool isDirectScan(const Target& t) const {
    return l_[t.tensor].form == Form::Scan && l_.program.buffer(t.buffer).dtype == computeType(l_[t.tensor].dtype);
  }
  void setScan(Store& store, TensorId t, const Index& index) {
    const Expr& along = l_.pool()[index[l_[t].scanDim]];
    if (along.op == Op::Range) store.scan = along.range();
    store.scanKind = l_[t].scanKind;
  }

  ExprId targetValue(const Target& t) {
    if (t.isLocalToo || (l_[t.tensor].form == Form::Scan && !isDirectScan(t))) return l_.at(t.tensor, t.domain.index);
    return valueOf(t.tensor, t.domain.index);
  }

  /// Whether the nest finds the tensor in memory. A result that one nest needs for another is stored ahead of both.
  bool isStored(TensorId t, const NestState& nest) const {
    return !nest.own.contains(t) && (temporaries_.contains(t) || (l_[t].isResult && nest.isForOthers));
  }

  Decision decide(TensorId t, const std::set<Index>& indices, const NestState& nest) {
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

  /// A buffer of one iteration, where all its readers ask for the same place along some dimensions, and none of what is
  /// in it is computed in several iterations.
  bool findLocal(TensorId t, const std::set<Index>& indices, const NestState& nest, bool mayBeRow, Decision& d) {
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
      if (!s.isAlwaysLess(d.index[k], tensor.sizes[k]) || !s.isAlwaysLessOrEqual(l_.integer(0), d.index[k]))
        return false;
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

  /// Whether one element takes little of an iteration's work.
  bool isCheap(TensorId t, const Index& index, const NestState& nest) {
    const std::optional<int64_t> work = workOf(l_.definition(t, index));
    return work && *work <= nest.work / cheapShare;
  }

  bool hasLoad(ExprId id) const {
    const Expr& e = l_.program.expressions[id];
    if (e.op == Op::Load) return true;
    return std::any_of(e.operands.begin(), e.operands.end(), [&](ExprId o) { return hasLoad(o); });
  }

  /// The expression with the nest's decisions in place of loads of whole tensors.
  ExprId rewrite(ExprId id, NestState& nest) {
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
    return out;
  }

  /// `isWanted`: whether the nest that asks for the tensor asks for another one's buffer, too.
  template <class IsWanted>
  void emitTemporary(TensorId t, IsWanted&& isWanted) {
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
    std::set<Request> reads = reductionsIn(valueOf(t, targets.front().domain.index));
    std::erase_if(reads, [&](const Request& r) { return l_[r.tensor].form == Form::Repeated; });
    if (const TensorId first = reads.size() == 1 ? reads.begin()->tensor : TensorId();
        first && l_[t].form == Form::Reduction && l_[first].form == Form::Reduction && isInside(*reads.begin()) &&
        !temporaries_.contains(first) && isWanted(first)) {
      Target also = planned(first, l_[first].buffer);
      if (also.outer == targets.front().outer && also.domain.index == reads.begin()->index) {
        also.isLocalToo = true;
        temporaries_.insert(first);
        targets.push_back(std::move(also));
      }
    }
    if (auto result = withParts_.extract(t)) targets.push_back(std::move(result.mapped()));
    emit(targets);
  }

  Lowering& l_;
  std::map<std::pair<size_t, ExprId>, RangeId> shared_;
  std::unordered_map<ExprId, std::set<RangeId>> ranges_;
  std::unordered_map<ExprId, std::optional<int64_t>> work_;
  std::set<TensorId> temporaries_;
  std::map<TensorId, Target> withParts_;  ///< results to be stored with those parts of columns
  struct Stored {
    size_t nest, store;
  };
  std::map<TensorId, Stored> results_;  ///< those that lie in outputs
};

}  // namespace

void schedule(Lowering& l, const std::vector<ScheduledResult>& results) {
  Scheduler(l).run(results);
  joinStatistics(l);
}

}  // namespace graft::lower
