#include "core/compile/codegen/cuda/lane_steps.h"

#include <algorithm>

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {

constexpr int64_t kMost = 64;  ///< no greater divisor is asked for

}  // namespace

LaneSteps::Step LaneSteps::of(ExprId id) {
  if (lanes_ == 1 || !accesses_.of(id).depends(range_)) return Step::Same;
  if (const auto at = steps_.find(id); at != steps_.end()) return at->second;
  const Step step = find(id);
  steps_.emplace(id, step);
  return step;
}

LaneSteps::Step LaneSteps::find(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  if (e.op == Op::Range) return Step::Unit;
  if (e.operands.empty()) return Step::Same;
  // A row that a Reduce goes over may share its range with the lanes around it.
  if (e.op == Op::Reduce) return Step::Other;
  const Step a = of(e.operands[0]);
  const Step b = e.operands.size() > 1 ? of(e.operands[1]) : Step::Same;
  const auto isWhole = [&](size_t i) { return divisor(e.operands[i]) % lanes_ == 0; };
  const bool isAllSame =
      std::all_of(e.operands.begin(), e.operands.end(), [&](ExprId o) { return of(o) == Step::Same; });
  if (isAllSame) return Step::Same;
  switch (e.op) {
    case Op::Add:
      return a != b && a != Step::Other && b != Step::Other ? Step::Unit : Step::Other;
    case Op::Subtract:
      return a == Step::Unit && b == Step::Same ? Step::Unit : Step::Other;
    // Whole vectors lie on one side of a multiple of the lanes.
    case Op::FloorDivide:
      return a == Step::Unit && b == Step::Same && isWhole(0) && isWhole(1) ? Step::Same : Step::Other;
    case Op::Remainder:
      return a == Step::Unit && b == Step::Same && isWhole(0) && isWhole(1) ? Step::Unit : Step::Other;
    case Op::Less:
      return a == Step::Unit && b == Step::Same && isWhole(0) && isWhole(1) ? Step::Same : Step::Other;
    case Op::LessEqual:
      return a == Step::Same && b == Step::Unit && isWhole(0) && isWhole(1) ? Step::Same : Step::Other;
    case Op::Select:
      return a == Step::Same && b == Step::Unit && of(e.operands[2]) == Step::Unit ? Step::Unit : Step::Other;
    default:
      return Step::Other;
  }
}

int64_t LaneSteps::divisor(ExprId id) {
  const Expr e = accesses_.program().expressions[id];
  const auto operand = [&](size_t i) { return divisor(e.operands[i]); };
  switch (e.op) {
    case Op::Constant: {
      const uint64_t bits = e.bits | static_cast<uint64_t>(kMost);
      return static_cast<int64_t>(bits & (~bits + 1));
    }
    case Op::Range:
      return e.range() == range_ ? lanes_ : 1;
    case Op::Add:
    case Op::Subtract:
    case Op::Remainder:  // by what the dividend and the divisor have in common
      return e.dtype == DType::Int64 ? std::min(operand(0), operand(1)) : 1;
    case Op::Select:
      return std::min(operand(1), operand(2));
    case Op::Multiply:
      return e.dtype == DType::Int64 ? std::min(kMost, operand(0) * operand(1)) : 1;
    default:
      return 1;
  }
}

int64_t LaneSteps::width(ExprId offset, int64_t alignment, int64_t elementBytes) {
  if (of(offset) != Step::Unit) return 1;
  int64_t width = std::min(lanes_, divisor(offset));
  while (width > 1 && (width * elementBytes > 16 || alignment % (width * elementBytes) != 0)) width /= 2;
  return width;
}

}  // namespace graft::codegen
