#include "core/compile/loops/verify.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/compile/loops/checks/check_types.h"
#include "core/compile/loops/checks/coverage.h"
#include "core/compile/loops/reachable.h"
#include "core/compile/loops/simplify.h"
#include "core/compile/loops/spelling.h"
#include "core/compile/loops/text.h"

namespace graft::loops {
namespace {

constexpr size_t kMostAround = 64;        // of a buffer, and of the loops around an expression
constexpr size_t kMostInnerRanges = 256;  // of the reductions in one expression
constexpr size_t kDeepestReduction = 16;  // of reductions in reductions
constexpr size_t kMostVisits = 200'000;   // of expressions under conditions

constexpr int64_t kMostSteps = 4'000'000;  // of all proofs

std::string shortened(const std::string& text) {
  constexpr size_t kLongest = 300;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

void addSorted(std::vector<RangeId>& to, const std::vector<RangeId>& from) {
  to.insert(to.end(), from.begin(), from.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}
bool isAmong(const std::vector<RangeId>& ranges, RangeId r) {
  return std::find(ranges.begin(), ranges.end(), r) != ranges.end();
}

class Verifier {
 public:
  explicit Verifier(const Program& given) : given_(given), program_(given), simplifier_(program_) {
    math().limitSteps(kMostSteps);
  }

  Status run() {
    for (const auto step : {&Verifier::sizes, &Verifier::types, &Verifier::extents, &Verifier::scopes,
                            &Verifier::bounds, &Verifier::order, &Verifier::writes})
      if (!(this->*step)()) return badInput(complaint_);
    return done();
  }

 private:
  bool fail(std::string complaint) {
    if (complaint_.empty()) complaint_ = std::move(complaint);
    return false;
  }
  std::string text(ExprId id) const { return shortened(printExpression(given_, id)); }
  const std::string& name(BufferId id) const { return given_.buffer(id).name; }
  std::string storeText(const Store& s) const {
    std::string index;
    for (const ExprId i : s.index) index += (index.empty() ? "" : ", ") + printExpression(given_, i);
    return shortened(fmt::format("{}[{}]", name(s.buffer), index));
  }

  // A number that the program never reads may be negative.
  bool sizes() {
    std::vector<bool> isRead(given_.sizes.size());
    for (uint32_t i = 0; i < given_.expressions.size(); ++i)
      if (const Expr& e = given_.expressions[ExprId(i)]; e.op == Op::Size && e.index < isRead.size())
        isRead[e.index] = true;
    for (size_t i = 0; i < given_.sizes.size(); ++i) {
      const Size& s = given_.sizes[i];
      if ((s.min < 0 && isRead[i]) || (s.max && *s.max < s.min))
        return fail(fmt::format("the limits of the size '{}' are none", s.name));
    }
    return true;
  }

  // Ids and dtypes. Nothing else may be asked of a program before.
  bool types() {
    const auto isValid = [&](ExprId id) { return id.index < given_.expressions.size(); };
    const auto isRange = [&](RangeId r) { return r.index < given_.ranges.size(); };
    for (const Range& r : given_.ranges)
      if (!isValid(r.extent)) return fail(fmt::format("the range '{}' has no extent", r.name));
    for (const Buffer& b : given_.buffers) {
      if (!isProgramDType(b.dtype)) return fail(fmt::format("'{}' has a dtype that no program has", b.name));
      if (b.sizes.size() > kMostAround || !std::all_of(b.sizes.begin(), b.sizes.end(), isValid))
        return fail(fmt::format("the dimensions of '{}' are none", b.name));
    }
    for (const Nest& n : given_.nests) {
      if (!std::all_of(n.outer.begin(), n.outer.end(), isRange)) return fail("a nest has a range that is none");
      for (const Store& s : n.stores)
        if (s.buffer.index >= given_.buffers.size() || !isValid(s.value) ||
            !std::all_of(s.index.begin(), s.index.end(), isValid) ||
            !std::all_of(s.ranges.begin(), s.ranges.end(), isRange))
          return fail("a store has a part that is none");
    }
    used_ = reachable(given_.expressions, roots(given_));
    for (const ExprId id : used_) {
      const Expr& e = given_.expressions[id];
      if (!std::all_of(e.ranges.begin(), e.ranges.end(), isRange)) return fail("a reduction has a range that is none");
      if (const std::string complaint = typeComplaint(given_, id); !complaint.empty()) return fail(complaint);
    }
    return true;
  }

  bool extents() {
    std::vector<ExprId> all;
    for (const Range& r : given_.ranges) all.push_back(r.extent);
    for (const Buffer& b : given_.buffers) all.insert(all.end(), b.sizes.begin(), b.sizes.end());
    for (const ExprId id : reachable(given_.expressions, all)) {
      const Expr& e = given_.expressions[id];
      const bool isKnown = e.op == Op::Constant || e.op == Op::Size || e.op == Op::Negate || e.op == Op::Add ||
                           e.op == Op::Subtract || e.op == Op::Multiply || e.op == Op::FloorDivide ||
                           e.op == Op::Remainder || e.op == Op::Minimum || e.op == Op::Maximum;
      if (!isKnown || e.dtype != DType::Int64)
        return fail(fmt::format("the extent {} is not made of numbers and sizes by arithmetic alone", text(id)));
      // Before they are simplified: no divisor is 0 there.
      const bool divides = e.op == Op::FloorDivide || e.op == Op::Remainder;
      if (divides && !isAtLeast(e.operands[1], 1)) return fail(fmt::format("the divisor of {} may be 0", text(id)));
    }
    // The copy gets the simple form, so that equal extents are equal.
    for (Range& r : program_.ranges) r.extent = simplifier_.simplify(r.extent);
    for (Buffer& b : program_.buffers)
      for (ExprId& size : b.sizes) size = simplifier_.simplify(size);
    for (size_t i = 0; i < program_.ranges.size(); ++i)
      if (!isAtLeast(program_.ranges[i].extent, 0))
        return fail(
            fmt::format("the extent {} of '{}' may be negative", text(given_.ranges[i].extent), given_.ranges[i].name));
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      for (size_t d = 0; d < program_.buffers[i].sizes.size(); ++d)
        if (!isAtLeast(program_.buffers[i].sizes[d], 0))
          return fail(fmt::format("the size {} of '{}' may be negative", text(given_.buffers[i].sizes[d]),
                                  given_.buffers[i].name));
    return true;
  }
  bool isAtLeast(ExprId id, int64_t least) {
    return math().isExact(id) && math().isNonNegative(math().polynomial(id) - Polynomial(least));
  }

  // Ranges: which an expression needs, and which its reductions bring.
  struct Ranges {
    std::vector<RangeId> free, bound;
    size_t depth = 0;  // of reductions
  };
  bool scopes() {
    std::map<ExprId, Ranges> all;
    for (const ExprId id : used_) {
      const Expr& e = given_.expressions[id];
      Ranges& r = all[id];
      if (e.op == Op::Range) r.free.push_back(e.range());
      for (const ExprId o : e.operands) {
        const Ranges& part = all.at(o);
        addSorted(r.free, part.free);
        addSorted(r.bound, part.bound);
        r.depth = std::max(r.depth, part.depth);
      }
      if (e.op == Op::Reduce) {
        ++r.depth;
        for (const RangeId own : e.ranges) {
          if (isAmong(r.bound, own) || std::count(e.ranges.begin(), e.ranges.end(), own) > 1)
            return fail(fmt::format("'{}' runs twice in {}", given_.range(own).name, text(id)));
          std::erase(r.free, own);
        }
        addSorted(r.bound, e.ranges);
      }
      if (r.free.size() > kMostAround || r.bound.size() > kMostInnerRanges || r.depth > kDeepestReduction)
        return fail(fmt::format("there are too many ranges in {}", text(id)));
    }
    for (const Nest& n : given_.nests) {
      for (const Store& s : n.stores) {
        std::vector<RangeId> scope = n.outer;
        scope.insert(scope.end(), s.ranges.begin(), s.ranges.end());
        if (scope.size() > kMostAround) return fail(fmt::format("there are too many ranges around {}", storeText(s)));
        for (const RangeId r : scope)
          if (std::count(scope.begin(), scope.end(), r) > 1)
            return fail(fmt::format("'{}' runs twice around {}", given_.range(r).name, storeText(s)));
        std::vector<ExprId> parts = s.index;
        parts.push_back(s.value);
        for (const ExprId id : parts) {
          for (const RangeId r : all.at(id).free)
            if (!isAmong(scope, r))
              return fail(fmt::format("'{}' does not run where {} needs it", given_.range(r).name, text(id)));
          for (const RangeId r : all.at(id).bound)
            if (isAmong(scope, r)) return fail(fmt::format("'{}' runs twice in {}", given_.range(r).name, text(id)));
        }
        if (!storeTypes(s)) return false;
      }
    }
    return true;
  }
  bool storeTypes(const Store& s) {
    const Buffer& b = given_.buffer(s.buffer);
    if (b.role == Buffer::Role::Input) return fail(fmt::format("the input '{}' is written", b.name));
    if (s.index.size() != b.sizes.size())
      return fail(
          fmt::format("'{}' has {} dimensions, and is written with {}", b.name, b.sizes.size(), s.index.size()));
    for (const ExprId i : s.index)
      if (given_.expressions[i].dtype != DType::Int64) return fail(fmt::format("an index of '{}' is not i64", b.name));
    const DType value = given_.expressions[s.value].dtype;
    if (value != b.dtype)
      return fail(fmt::format("'{}' is {}, and is written as {}", b.name, dtypeText(b.dtype), dtypeText(value)));
    if (!s.scan) return true;
    if (!isAmong(s.ranges, *s.scan))
      return fail(fmt::format("the scan of '{}' is not along a range of its own", b.name));
    const bool isKnown = s.scanKind == ReduceKind::Sum || s.scanKind == ReduceKind::Product ||
                         s.scanKind == ReduceKind::Minimum || s.scanKind == ReduceKind::Maximum;
    if (!isKnown || value == DType::Bool)
      return fail(fmt::format("no scan of '{}' combines {} by '{}'", b.name, dtypeText(value), reduceName(s.scanKind)));
    return true;
  }

  // Indices and divisors. What holds wherever the expression stands is found first, each expression once; what needs
  // the conditions around is found on the way down from the stores.
  bool bounds() {
    needsContext_.assign(given_.expressions.size(), false);
    for (const ExprId id : used_) {
      const Expr& e = given_.expressions[id];
      bool open = !isSafe(id, {});
      for (const ExprId o : e.operands) open = open || needsContext_[o.index];
      needsContext_[id.index] = open;
    }
    for (const Nest& n : given_.nests)
      for (const Store& s : n.stores) {
        if (neverRun(n.outer) || neverRun(s.ranges)) continue;
        std::vector<Polynomial> facts;
        addRangeFacts(n.outer, facts);
        addRangeFacts(s.ranges, facts);
        const size_t context = newContext(std::move(facts));
        for (size_t d = 0; d < s.index.size(); ++d) {
          if (!underConditions(s.index[d], context)) return false;
          if (!isInside(s.buffer, s.index[d], d, contexts_[context]))
            return fail(
                fmt::format("{} {}", storeText(s), indexComplaint(s.buffer, s.index[d], d, contexts_[context])));
        }
        if (!underConditions(s.value, context)) return false;
      }
    return true;
  }

  // Nothing is evaluated in a loop of no iterations.
  bool neverRun(const std::vector<RangeId>& ranges) {
    return std::any_of(ranges.begin(), ranges.end(), [&](RangeId r) {
      const Bounds extent = math().bounds(program_.range(r).extent);
      return extent.max && *extent.max <= 0;
    });
  }
  // Where ranges run, their extents are not 0.
  void addRangeFacts(const std::vector<RangeId>& ranges, std::vector<Polynomial>& facts) {
    for (const RangeId r : ranges) {
      const Polynomial extent = math().polynomial(program_.range(r).extent);
      if (!extent.isConstant()) facts.push_back(extent - Polynomial(1));
    }
  }
  size_t newContext(std::vector<Polynomial> facts) {
    contexts_.push_back(std::move(facts));
    return contexts_.size() - 1;
  }
  // A context within another: a condition with a value, or the ranges of a reduction.
  size_t innerContext(size_t outer, ExprId cause, bool value) {
    const auto [at, isNew] = innerContexts_.try_emplace({outer, cause, value}, 0);
    if (!isNew) return at->second;
    std::vector<Polynomial> facts = contexts_[outer];
    const Expr& e = given_.expressions[cause];
    if (e.op == Op::Reduce)
      addRangeFacts(e.ranges, facts);
    else
      math().collectFacts(simplifier_.simplify(cause), value, facts);
    return at->second = newContext(std::move(facts));
  }

  bool underConditions(ExprId root, size_t rootContext) {
    std::vector<std::pair<ExprId, size_t>> open{{root, rootContext}};
    while (!open.empty()) {
      const auto [id, context] = open.back();
      open.pop_back();
      if (!needsContext_[id.index] || !visited_.emplace(id, context).second) continue;
      if (visited_.size() > kMostVisits) return fail("there are too many conditions to follow them all");
      if (!isSafe(id, contexts_[context])) return fail(complaintAbout(id, contexts_[context]));
      const Expr& e = given_.expressions[id];
      if (e.op == Op::Select) {
        const ExprId condition = e.operands[0];
        open.emplace_back(condition, context);
        const auto value = math().decide(simplifier_.simplify(condition), contexts_[context]);
        for (const bool choice : {true, false})
          if (value.value_or(choice) == choice)
            open.emplace_back(e.operands[choice ? 1 : 2], innerContext(context, condition, choice));
      } else if (!neverRun(e.ranges)) {
        const size_t inner = e.op == Op::Reduce ? innerContext(context, id, true) : context;
        for (const ExprId o : e.operands) open.emplace_back(o, inner);
      }
    }
    return true;
  }

  // Of an expression alone, its operands aside: whether it reads and divides where it may.
  bool isSafe(ExprId id, std::span<const Polynomial> facts) {
    const Expr& e = given_.expressions[id];
    switch (e.op) {
      case Op::Load:
        for (size_t d = 0; d < e.operands.size(); ++d)
          if (!isInside(e.buffer(), e.operands[d], d, facts)) return false;
        return true;
      case Op::CheckedIndex: {
        // The index 0, with which a run goes on, must be one.
        const ExprId size = simplifier_.simplify(e.operands[1]);
        return math().isExact(size) && math().isNonNegative(math().polynomial(size) - Polynomial(1), facts);
      }
      case Op::FloorDivide:
      case Op::TruncateDivide:
      case Op::Remainder:
      case Op::Fmod:
        return isFloatingPoint(e.dtype) || isNeverZero(e.operands[1], facts);
      default:
        return true;
    }
  }
  std::string complaintAbout(ExprId id, std::span<const Polynomial> facts) {
    const Expr& e = given_.expressions[id];
    if (e.op == Op::CheckedIndex) return fmt::format("{} may check an index of nothing: the size may be 0", text(id));
    if (e.op != Op::Load) return fmt::format("the divisor of {} may be 0: make it a checked_divisor", text(id));
    for (size_t d = 0; d < e.operands.size(); ++d)
      if (!isInside(e.buffer(), e.operands[d], d, facts))
        return fmt::format("{} {}", text(id), indexComplaint(e.buffer(), e.operands[d], d, facts));
    return {};
  }

  bool isNeverZero(ExprId id, std::span<const Polynomial> facts) {
    const Expr& e = given_.expressions[id];
    if (e.op == Op::CheckedDivisor) return true;
    if (const int64_t* n = given_.expressions.findInteger(id)) return *n != 0;
    if (e.dtype != DType::Int64) return false;
    const ExprId simple = simplifier_.simplify(id);
    if (!math().isExact(simple)) return false;
    const Polynomial p = math().polynomial(simple), one(1);
    return math().isNonNegative(p - one, facts) || math().isNonNegative(-p - one, facts);
  }

  bool isInside(BufferId buffer, ExprId index, size_t dimension, std::span<const Polynomial> facts) {
    const ExprId simple = simplifier_.simplify(index);
    if (!math().isExact(simple)) return false;
    const Polynomial p = math().polynomial(simple);
    const Polynomial size = math().polynomial(program_.buffer(buffer).sizes[dimension]);
    return math().isNonNegative(p, facts) && math().isNonNegative(size - p - Polynomial(1), facts);
  }
  // Why the index is not inside.
  std::string indexComplaint(BufferId buffer, ExprId index, size_t dimension, std::span<const Polynomial> facts) {
    const ExprId simple = simplifier_.simplify(index);
    std::string value = "anything";
    if (math().isExact(simple))
      value = math().isNonNegative(math().polynomial(simple), facts)
                  ? fmt::format("{} or more", text(given_.buffer(buffer).sizes[dimension]))
                  : "negative";
    return fmt::format("is outside of '{}': {} may be {} in dimension {}", name(buffer), text(index), value, dimension);
  }

  // Who reads what was written when. Iterations of a nest may run in any order, so a nest does not read what it writes,
  // locals aside; and a store does not read what it writes itself.
  bool order() {
    std::map<BufferId, size_t> lastWriter, localNest;
    std::map<BufferId, std::set<size_t>> writers;
    for (size_t i = 0; i < given_.nests.size(); ++i)
      for (const Store& s : given_.nests[i].stores) writers[s.buffer].insert(i);
    size_t visits = 0;
    for (size_t i = 0; i < given_.nests.size(); ++i) {
      const Nest& n = given_.nests[i];
      std::map<BufferId, std::vector<Write>> localWrites;
      std::set<BufferId> isWritten;
      for (const Store& s : n.stores) {
        std::vector<ExprId> parts = s.index;
        parts.push_back(s.value);
        for (const ExprId id : reachable(given_.expressions, parts)) {
          if (++visits > 100 * kMostVisits) return fail("the program is too large");
          const Expr& e = given_.expressions[id];
          if (e.op != Op::Load || given_.buffer(e.buffer()).role == Buffer::Role::Input) continue;
          const BufferId read = e.buffer();
          if (read == s.buffer) return fail(fmt::format("a store of '{}' reads it", name(read)));
          if (given_.buffer(read).role != Buffer::Role::Local) {
            const auto w = writers.find(read);
            if (w == writers.end() || *w->second.rbegin() >= i)
              return fail(fmt::format("'{}' is read before it is written", name(read)));
          } else if (!isWritten.contains(read)) {
            if (!coversOnce(simplifier_, program_.buffer(read), localWrites[read]))
              return fail(fmt::format("'{}' is read before its nest has written all of it", name(read)));
            isWritten.insert(read);
          }
        }
        if (given_.buffer(s.buffer).role == Buffer::Role::Local) {
          if (localNest.try_emplace(s.buffer, i).first->second != i)
            return fail(fmt::format("the local '{}' is written in two nests", name(s.buffer)));
          localWrites[s.buffer].push_back({s.index, s.ranges});
        }
      }
    }
    return true;
  }

  bool writes() {
    std::map<BufferId, std::vector<Write>> all;
    std::map<BufferId, std::set<size_t>> nests;
    for (size_t i = 0; i < given_.nests.size(); ++i)
      for (const Store& s : given_.nests[i].stores) {
        std::vector<RangeId> ranges = given_.nests[i].outer;
        ranges.insert(ranges.end(), s.ranges.begin(), s.ranges.end());
        all[s.buffer].push_back({s.index, std::move(ranges)});
        nests[s.buffer].insert(i);
      }
    for (uint32_t i = 0; i < given_.buffers.size(); ++i) {
      const BufferId id(i);
      const Buffer::Role role = given_.buffers[i].role;
      if (role == Buffer::Role::Input || role == Buffer::Role::Local) continue;
      if (!all.contains(id)) return fail(fmt::format("'{}' is never written", name(id)));
      if (role == Buffer::Role::Temporary && nests[id].size() > 1)
        return fail(fmt::format("the temporary '{}' is written in two nests", name(id)));
      if (!coversOnce(simplifier_, program_.buffer(id), all[id]))
        return fail(fmt::format("it does not follow that '{}' is written whole, and no element of it twice", name(id)));
    }
    return true;
  }

  IndexMath& math() { return simplifier_.math(); }

  const Program& given_;
  Program program_;  // a copy, to which simplified expressions are added
  Simplifier simplifier_;
  std::vector<ExprId> used_;
  std::vector<bool> needsContext_;
  std::vector<std::vector<Polynomial>> contexts_;  // what is known there
  std::map<std::tuple<size_t, ExprId, bool>, size_t> innerContexts_;
  std::set<std::pair<ExprId, size_t>> visited_;
  std::string complaint_;
};

}  // namespace

Status verify(const Program& program) { return Verifier(program).run(); }

}  // namespace graft::loops
