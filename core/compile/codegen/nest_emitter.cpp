#include "core/compile/codegen/nest_emitter.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {
uint64_t memoKey(ExprId id, int guard) { return static_cast<uint64_t>(guard) << 32 | id.index; }
}  // namespace

NestEmitter::NestEmitter(Accesses& accesses, NestRewriter& rewriter, CpuLevel level, int width,
                         const std::vector<int>& slots, const LoopSchedule& schedule)
    : b_(level == CpuLevel::Avx512),
      accesses_(accesses),
      rewriter_(rewriter),
      operations_(b_, level),
      planner_(accesses, width, schedule),
      width_(width),
      slots_(slots),
      memos_(1),
      guards_(1) {}

std::optional<int64_t> NestEmitter::known(ExprId id) const {
  const int64_t* number = accesses_.program().expressions.findInteger(id);
  return number ? std::optional<int64_t>(*number) : std::nullopt;
}

void NestEmitter::remember(ExprId id, int guard, const Value& v) {
  // A vector is one of the loop that its lanes run along, even where all of them are equal and were computed ahead of
  // it: the loop over the rest may have other lanes.
  const int scope = v.lanes > 1 ? std::max(v.scope, scopeOf(id)) : v.scope;
  memos_[static_cast<size_t>(scope)][memoKey(id, guard)] = v;
}

void NestEmitter::forget(BufferId written) {
  ++versions_[written];
  forgetWhere([&](const Dependence& d) { return std::ranges::find(d.written, written) != d.written.end(); });
}

void NestEmitter::forget(RangeId r) {
  forgetWhere([&](const Dependence& d) { return d.depends(r); });
}

// A value that a guard kept from being read belongs to what the guard depends on, too.
void NestEmitter::forgetWhere(const std::function<bool(const Dependence&)>& depends) {
  const auto belongs = [&](uint64_t key) {
    if (depends(accesses_.of(ExprId(static_cast<uint32_t>(key))))) return true;
    for (auto guard = static_cast<size_t>(key >> 32); guard != 0; guard = static_cast<size_t>(guards_[guard].outer))
      if (guards_[guard].condition && depends(accesses_.of(guards_[guard].condition))) return true;
    return false;
  };
  for (auto& memo : memos_) std::erase_if(memo, [&](const auto& entry) { return belongs(entry.first); });
}

int NestEmitter::scopeOf(ExprId id) {
  const Dependence& d = accesses_.of(id);
  int scope = d.written.empty() ? 0 : barrier_;
  for (const RangeId r : d.ranges) scope = std::max(scope, bindings_.at(r).scope);
  if (d.isUnsafe && guard_) scope = std::max(scope, guardValue(guard_).scope);
  return scope;
}

bool NestEmitter::isVector(ExprId id) {
  if (lanes_.count == 1) return false;
  const Dependence& d = accesses_.of(id);
  if (storesLanes_ > 1 && !d.written.empty()) return true;
  return std::any_of(d.ranges.begin(), d.ranges.end(), [&](RangeId r) { return bindings_.at(r).lanes > 1; });
}

Value NestEmitter::value(ExprId id) {
  const bool isUnsafe = accesses_.of(id).isUnsafe;
  // What a weaker condition has computed serves too.
  for (int guard = isUnsafe ? guard_ : 0;; guard = guards_[static_cast<size_t>(guard)].outer) {
    for (size_t s = memos_.size(); s-- > 0;)
      if (const auto at = memos_[s].find(memoKey(id, guard)); at != memos_[s].end()) return at->second;
    if (guard == 0) break;
  }
  const int before = guard_;
  if (!isUnsafe) guard_ = 0;
  const Value result = compute(id);
  remember(id, guard_, result);
  guard_ = before;
  return result;
}

bool NestEmitter::fitsInt32(ExprId id) {
  loops::Simplifier& s = accesses_.simplifier();
  return s.isAlwaysLessOrEqual(s.integer(std::numeric_limits<int32_t>::min()), id) &&
         s.isAlwaysLessOrEqual(id, s.integer(std::numeric_limits<int32_t>::max()));
}

Value NestEmitter::compute(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  switch (e.op) {
    case Op::Constant:
      if (isFloatingPoint(e.dtype)) return b_.number(e.dtype, accesses_.program().expressions.constant(id));
      return b_.integer(e.dtype, static_cast<int64_t>(e.bits));
    case Op::Range:
      return rangeValue(e.range());
    case Op::Size: {
      const std::string at = "getelementptr i8, ptr %sizes, i64 " + std::to_string(8 * e.index);
      const Value pointer = b_.instruction(DType::Int64, 1, 0, at);
      return b_.instruction(DType::Int64, 1, 0, "load i64, ptr " + pointer.name + ", align 8");
    }
    case Op::Load:
      return load(id);
    case Op::Reduce:
      return reduce(id);
    case Op::Select:
      return selectValue(e);
    case Op::CheckedIndex:
    case Op::CheckedDivisor:
      return checkedValue(e);
    default:
      break;
  }
  std::vector<Value> operands;
  int lanes = 1;
  for (const ExprId operand : e.operands) {
    operands.push_back(value(operand));
    lanes = std::max(lanes, operands.back().lanes);
  }
  if (e.op == Op::Cast && isFloatingPoint(e.dtype) && operands[0].dtype == DType::Int64 && lanes > 1 &&
      fitsInt32(e.operands[0]))
    operands[0] = b_.convert("trunc", operands[0], DType::Int32);
  const bool divides =
      e.op == Op::FloorDivide || e.op == Op::TruncateDivide || e.op == Op::Remainder || e.op == Op::Fmod;
  const Value active = divides && !isFloatingPoint(operands[0].dtype) ? activeLanes(true, lanes) : Value{};
  return operations_.operation(e, operands, active);
}

Value NestEmitter::rangeValue(RangeId r) {
  const Binding& binding = bindings_.at(r);
  assert(!binding.isZero);
  if (binding.lanes == 1) return binding.index;
  return b_.binary("add", binding.index, b_.lanesFrom0(DType::Int64, binding.lanes));
}

Value NestEmitter::selectValue(const Expr& e) {
  const Value condition = value(e.operands[0]);
  if (condition.isConstant) return value(e.operands[condition.name == "true" ? 1 : 2]);
  const int outer = guard_;
  Value results[2];
  for (int i = 0; i < 2; ++i) {
    const auto at = std::find_if(guards_.begin(), guards_.end(),
                                 [&](const Guard& g) { return g.isOf(outer, e.operands[0], i == 0); });
    guard_ = static_cast<int>(at - guards_.begin());
    if (at == guards_.end()) guards_.push_back({outer, e.operands[0], i == 0, {}});
    results[i] = value(e.operands[static_cast<size_t>(i) + 1]);
    guard_ = outer;
  }
  return b_.select(condition, results[0], results[1]);
}

Value NestEmitter::guardValue(int guard) {
  const Guard g = guards_[static_cast<size_t>(guard)];
  if (g.known) return g.known;
  // The condition itself is evaluated where the Selects further out choose.
  const int before = guard_;
  guard_ = g.outer;
  Value condition = value(g.condition);
  guard_ = before;
  if (!g.isThen) condition = b_.binary("xor", condition, b_.boolean(true));
  return g.outer ? b_.binary("and", guardValue(g.outer), condition) : condition;
}

Value NestEmitter::activeLanes(bool isUnsafe, int lanes) {
  Value active;
  if (lanes > 1 && lanes_.active) active = lanes_.active;
  if (isUnsafe && guard_) {
    const Value guard = guardValue(guard_);
    if (lanes == 1 && guard.lanes > 1) {
      active = b_.anyLane(lanes_.active ? b_.binary("and", guard, lanes_.active) : guard);
    } else {
      active = active ? b_.binary("and", active, guard) : guard;
    }
  }
  return active ? b_.spread(active, lanes) : active;
}

Value NestEmitter::checkedValue(const Expr& e) {
  const Value v = value(e.operands[0]);
  const bool isIndex = e.op == Op::CheckedIndex;
  const Value bad =
      isIndex ? b_.compare("icmp uge", v, value(e.operands[1])) : b_.compare("icmp eq", v, b_.integer(v.dtype, 0));
  const Value active = activeLanes(true, bad.lanes);
  b_.raise(active ? b_.binary("and", bad, active) : bad, b_.emptyScope());
  return b_.select(bad, b_.integer(v.dtype, isIndex ? 0 : 1), v);
}

}  // namespace graft::codegen
