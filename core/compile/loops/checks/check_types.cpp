#include "core/compile/loops/checks/check_types.h"

#include <fmt/format.h>
#include <algorithm>

#include "core/compile/loops/element.h"
#include "core/compile/loops/spelling.h"

namespace graft::loops {
namespace {

bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }
// What operations compute with.
bool isNumber(DType d) { return d != DType::Bool && !isHalf(d); }
bool isFloatingNumber(DType d) { return d == DType::Float32 || d == DType::Float64; }
bool isWholeNumber(DType d) { return isNumber(d) && !isFloatingPoint(d); }

// Whether the operation takes operands of this dtype.
bool takes(Op op, DType d) {
  switch (op) {
    case Op::Negate:
    case Op::Absolute:
    case Op::Sign:
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::FloorDivide:
    case Op::TruncateDivide:
    case Op::Remainder:
    case Op::Fmod:
    case Op::Power:
    case Op::Minimum:
    case Op::Maximum:
      return isNumber(d);
    case Op::Not:
    case Op::And:
    case Op::Or:
    case Op::Xor:
      return d == DType::Bool || isWholeNumber(d);
    case Op::ShiftLeft:
    case Op::ShiftRight:
    case Op::Gcd:
    case Op::CheckedDivisor:
      return isWholeNumber(d);
    case Op::Equal:
    case Op::NotEqual:
    case Op::Less:
    case Op::LessEqual:
      return !isHalf(d);
    case Op::CheckedIndex:
      return d == DType::Int64;
    default:
      return isFloatingNumber(d);
  }
}

std::string reduceComplaint(const Program& program, const Expr& e) {
  const DType body = program.expressions[e.operands[0]].dtype;
  const bool isOfBool = e.reduce == ReduceKind::Any || e.reduce == ReduceKind::All;
  if (e.ranges.empty()) return fmt::format("'{}' has no range", reduceName(e.reduce));
  if (isOfBool ? body != DType::Bool : !isNumber(body))
    return fmt::format("'{}' over ranges does not take {}", reduceName(e.reduce), dtypeText(body));
  if (e.dtype != (isPlace(e.reduce) ? DType::Int64 : body)) return "a reduction has another dtype than it computes";
  return {};
}

std::string loadComplaint(const Program& program, const Expr& e) {
  if (e.index >= program.buffers.size()) return "a load has no buffer";
  const Buffer& b = program.buffers[e.index];
  if (e.dtype != b.dtype)
    return fmt::format("'{}' is {}, and is read as {}", b.name, dtypeText(b.dtype), dtypeText(e.dtype));
  if (e.operands.size() != b.sizes.size())
    return fmt::format("'{}' has {} dimensions, and is read with {}", b.name, b.sizes.size(), e.operands.size());
  for (const ExprId i : e.operands)
    if (program.expressions[i].dtype != DType::Int64) return fmt::format("an index of '{}' is not i64", b.name);
  return {};
}

std::string constantComplaint(const Expr& e) {
  if (isHalf(e.dtype)) return fmt::format("{} has no constants: cast one of f32", dtypeText(e.dtype));
  if (!isFloatingPoint(e.dtype) && wrapped(static_cast<int64_t>(e.bits), e.dtype) != static_cast<int64_t>(e.bits))
    return fmt::format("a constant does not fit {}", dtypeText(e.dtype));
  return {};
}

}  // namespace

std::string typeComplaint(const Program& program, ExprId id) {
  const ExprPool& pool = program.expressions;
  const Expr& e = pool[id];
  if (!isProgramDType(e.dtype)) return fmt::format("no expression may be {}", dtypeText(e.dtype));
  if (std::any_of(e.operands.begin(), e.operands.end(), [&](ExprId o) { return o.index >= id.index; }))
    return "an operand does not come before its user";
  if (e.op != Op::Load && e.operands.size() != operandCount(e.op))
    return fmt::format("'{}' has {} operands", opName(e.op), e.operands.size());
  if (e.op != Op::Reduce && !e.ranges.empty()) return "ranges are of reductions alone";
  const auto operand = [&](size_t i) { return pool[e.operands[i]].dtype; };
  switch (e.op) {
    case Op::Constant:
      return constantComplaint(e);
    case Op::Range:
      return e.index < program.ranges.size() && e.dtype == DType::Int64 ? "" : "a loop variable has no range";
    case Op::Size:
      return e.index < program.sizes.size() && e.dtype == DType::Int64 ? "" : "a size is not of the program";
    case Op::Load:
      return loadComplaint(program, e);
    case Op::Cast:
      return {};
    case Op::Reduce:
      return reduceComplaint(program, e);
    case Op::Select:
      if (operand(0) != DType::Bool || operand(1) != operand(2) || e.dtype != operand(1))
        return "'select' takes a bool and two operands of its own dtype";
      return {};
    case Op::Uniform:
      for (size_t i = 0; i < e.operands.size(); ++i)
        if (operand(i) != DType::Int64 || e.dtype != DType::Float32) return "'uniform' takes four i64 and gives f32";
      return {};
    default:
      break;
  }
  if (!takes(e.op, operand(0)))
    return fmt::format("'{}' does not take {}", callName(e.op, operand(0)), dtypeText(operand(0)));
  if (e.operands.size() == 2 && operand(0) != operand(1))
    return fmt::format("'{}' takes operands of one dtype, not {} and {}", callName(e.op, operand(0)),
                       dtypeText(operand(0)), dtypeText(operand(1)));
  if (e.dtype != (isComparison(e.op) ? DType::Bool : operand(0)))
    return fmt::format("'{}' has another dtype than it computes", callName(e.op, operand(0)));
  return {};
}

}  // namespace graft::loops
