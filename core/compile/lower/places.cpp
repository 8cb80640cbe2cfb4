#include "core/compile/lower/places.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace graft::lower {
namespace {

using loops::Expr;
/// What an element's place is made of, and how far one step of each leads.
using Steps = std::map<ExprId, int64_t>;

/// An index as a sum of steps along ranges and what else it is made of.
bool addSteps(const Lowering& l, ExprId e, int64_t by, Steps& steps) {
  const Expr& x = l.program.expressions[e];
  if (const auto number = l.findNumber(e)) return *number == 0;
  if (x.op == Op::Add) return addSteps(l, x.operands[0], by, steps) && addSteps(l, x.operands[1], by, steps);
  if (x.op == Op::Multiply)
    for (const size_t k : {0u, 1u})
      if (const auto n = l.findNumber(x.operands[k])) return addSteps(l, x.operands[1 - k], by * *n, steps);
  steps[e] += by;
  return true;
}

ExprId placeOf(Lowering& l, const Index& index, const Sizes& sizes) {
  loops::Simplifier& s = l.simplifier;
  ExprId place = l.integer(0);
  for (size_t k = 0; k < sizes.size(); ++k) place = s.add(s.multiply(place, sizes[k]), index[k]);
  return place;
}

}  // namespace

bool goesOverAll(Lowering& l, const std::vector<RangeId>& ranges, const Index& index, const Sizes& sizes) {
  Steps steps;
  if (!addSteps(l, placeOf(l, index, sizes), 1, steps)) return false;
  // n * (x / n) + x % n is x.
  for (bool isMore = true; isMore;) {
    isMore = false;
    for (const auto& [e, step] : steps) {
      const Expr low = l.pool()[e];
      const auto n = low.op == Op::Remainder ? l.findNumber(low.operands[1]) : std::nullopt;
      if (!n) continue;
      const auto high = steps.find(l.simplifier.floorDivide(low.operands[0], low.operands[1]));
      if (high == steps.end() || high->second != step * *n) continue;
      const int64_t each = step;
      steps.erase(high);
      steps.erase(steps.find(e));
      if (!addSteps(l, low.operands[0], each, steps)) return false;
      isMore = true;
      break;
    }
  }
  std::vector<std::pair<int64_t, int64_t>> radix;  // step and extent
  for (const RangeId r : ranges) {
    const auto step = steps.extract(l.pool().range(r));
    const auto extent = l.findNumber(l.program.range(r).extent);
    if (step.empty() || !extent) return false;
    radix.emplace_back(step.mapped(), *extent);
  }
  std::sort(radix.begin(), radix.end());
  int64_t covered = 1;
  for (const auto& [step, extent] : radix)
    if (step != covered || __builtin_mul_overflow(covered, extent, &covered)) return false;
  return steps.empty() && l.findNumber(l.product(sizes)) == covered;
}

std::optional<RangeValues> findRangeValues(Lowering& l, const Index& index, const Index& place, const Sizes& sizes,
                                           const std::vector<RangeId>& ranges) {
  if (!countOf(l, sizes)) return {};
  loops::Simplifier& s = l.simplifier;
  Steps steps;
  if (!addSteps(l, placeOf(l, index, sizes), 1, steps)) return {};
  std::vector<std::pair<int64_t, ExprId>> digits;  // the smallest steps first
  for (const auto& [e, step] : steps) digits.emplace_back(step, e);
  std::sort(digits.begin(), digits.end());
  const ExprId whole = placeOf(l, place, sizes);
  std::map<ExprId, ExprId> values;
  for (size_t k = 0; k < digits.size(); ++k) {
    const auto& [step, e] = digits[k];
    ExprId value = s.floorDivide(whole, l.integer(step));
    if (step < 1) return {};
    if (k + 1 < digits.size()) {
      const int64_t next = digits[k + 1].first;
      if (next % step != 0 || next == step) return {};
      value = s.remainder(value, l.integer(next / step));
    }
    values.emplace(e, value);
  }
  RangeValues out;
  for (const auto& [e, value] : values) {
    const Expr x = l.pool()[e];
    if (x.op == Op::Range) {
      out.emplace(x.range(), value);
      continue;
    }
    if (x.op == Op::FloorDivide) continue;  // belongs to the remainder
    if (x.op != Op::Remainder || l.pool()[x.operands[0]].op != Op::Range) return {};
    const auto high = values.find(s.floorDivide(x.operands[0], x.operands[1]));
    if (high == values.end()) return {};
    out.emplace(l.pool()[x.operands[0]].range(), s.add(s.multiply(high->second, x.operands[1]), value));
  }
  for (size_t k = 0; k < index.size(); ++k)
    if (s.substitute(index[k], out) != place[k]) return {};
  if (!std::all_of(ranges.begin(), ranges.end(), [&](RangeId r) { return out.contains(r); })) return {};
  return out;
}

std::optional<RangeId> findRangeOfOnes(const Lowering& l, ExprId index) {
  Steps steps;
  if (!addSteps(l, index, 1, steps)) return {};
  for (const auto& [e, step] : steps)
    if (const Expr& x = l.program.expressions[e]; step == 1 && x.op == Op::Range) return x.range();
  return {};
}

std::optional<int64_t> countOf(const Lowering& l, const Sizes& sizes) {
  int64_t n = 1;
  for (const ExprId size : sizes) {
    const auto number = l.findNumber(size);
    if (!number || __builtin_mul_overflow(n, *number, &n)) return std::nullopt;
  }
  return n;
}

std::optional<int64_t> countOf(const Lowering& l, const std::vector<RangeId>& ranges) {
  Sizes extents;
  for (const RangeId r : ranges) extents.push_back(l.program.range(r).extent);
  return countOf(l, extents);
}

}  // namespace graft::lower
