#include "core/compile/codegen/cuda/cuda_spelling.h"

#include <fmt/format.h>

#include <cmath>

namespace graft::codegen {

using loops::Op;
using loops::ReduceKind;

std::string cudaType(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "bool";
    case DType::UInt8:
      return "u8";
    case DType::Int8:
      return "i8";
    case DType::Int16:
      return "i16";
    case DType::Int32:
      return "i32";
    case DType::Float16:
      return "f16";
    case DType::BFloat16:
      return "bf16";
    case DType::Float32:
      return "f32";
    case DType::Float64:
      return "f64";
    default:
      return "i64";
  }
}

std::string cudaNumber(double v, DType dtype) {
  const bool isSingle = dtype == DType::Float32;
  if (std::isnan(v)) return isSingle ? "nan_f32()" : "nan_f64()";
  if (std::isinf(v)) return std::string(v < 0 ? "(-" : "(") + (isSingle ? "inf_f32()" : "inf_f64()") + ")";
  std::string text = isSingle ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (isSingle) text += "f";
  return std::signbit(v) ? "(" + text + ")" : text;
}

std::string cudaNumber(int64_t v, DType dtype, bool isNarrow) {
  if (dtype == DType::Bool) return v != 0 ? "true" : "false";
  if (dtype == DType::Int64 && !isNarrow) {
    if (v == INT64_MIN) return "(-9223372036854775807ll - 1)";
    return v < 0 ? fmt::format("({}ll)", v) : fmt::format("{}ll", v);
  }
  if (v == INT32_MIN) return "(-2147483647 - 1)";
  const std::string text = v < 0 ? fmt::format("({})", v) : fmt::format("{}", v);
  return dtype == DType::Int64 || dtype == DType::Int32 ? text : fmt::format("({}){}", cudaType(dtype), text);
}

std::string cudaIdentity(ReduceKind kind, DType dtype) {
  const bool isFloating = isFloatingPoint(dtype);
  const int bits = static_cast<int>(dtypeSize(dtype)) * 8;
  const bool isUnsigned = dtype == DType::UInt8 || dtype == DType::Bool;
  const int64_t greatest = dtype == DType::Bool ? 1
                           : isUnsigned         ? 255
                                                : static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  switch (kind) {
    case ReduceKind::Sum:
      return isFloating ? cudaNumber(0.0, dtype) : cudaNumber(int64_t{0}, dtype);
    case ReduceKind::Product:
      return isFloating ? cudaNumber(1.0, dtype) : cudaNumber(int64_t{1}, dtype);
    case ReduceKind::Any:
      return "false";
    case ReduceKind::All:
      return "true";
    case ReduceKind::Minimum:
    case ReduceKind::ArgMinimum:
      return isFloating ? cudaNumber(static_cast<double>(INFINITY), dtype) : cudaNumber(greatest, dtype);
    default:
      return isFloating ? cudaNumber(static_cast<double>(-INFINITY), dtype)
                        : cudaNumber(isUnsigned ? 0 : -greatest - 1, dtype);
  }
}

std::string cudaAccumulator(ReduceKind kind, DType dtype) {
  return loops::isPlace(kind) ? "best<" + cudaType(dtype) + ">" : cudaType(dtype);
}

std::string cudaStart(ReduceKind kind, DType dtype) {
  const std::string type = cudaAccumulator(kind, dtype), identity = cudaIdentity(kind, dtype);
  return type == cudaType(dtype) ? identity : type + "{" + identity + ", 0}";
}

std::string cudaCombination(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "sum_of";
    case ReduceKind::Product:
      return "product_of";
    case ReduceKind::Minimum:
      return "minimum_of";
    case ReduceKind::Maximum:
      return "maximum_of";
    case ReduceKind::Any:
      return "any_of";
    case ReduceKind::All:
      return "all_of";
    case ReduceKind::ArgMinimum:
      return "least_of";
    default:
      return "greatest_of";
  }
}

std::string cudaOperation(Op op, DType dtype, const std::string& a, const std::string& b) {
  const bool isFloating = isFloatingPoint(dtype);
  const std::string type = cudaType(dtype);
  const std::string suffix = dtype == DType::Float32 ? "f" : "";
  const auto call = [&](const std::string& function) {
    return function + "(" + (b.empty() ? bareText(a) : a + ", " + b) + ")";
  };
  const auto ofType = [&](const char* function) { return call(std::string(function) + "<" + type + ">"); };
  if (loops::isComparison(op)) return "(" + a + " " + infixSign(op) + " " + b + ")";
  switch (op) {
    case Op::Add:
      return isFloating ? "(" + a + " + " + b + ")" : ofType("plus");
    case Op::Subtract:
      return isFloating ? "(" + a + " - " + b + ")" : ofType("minus");
    case Op::Multiply:
      return isFloating ? "(" + a + " * " + b + ")" : ofType("times");
    case Op::Divide:
      return "(" + a + " / " + b + ")";
    case Op::And:
    case Op::Or:
    case Op::Xor:
      return "((" + type + ")(" + a + " " + infixSign(op) + " " + b + "))";
    case Op::Negate:
      return isFloating ? "(-" + a + ")" : "minus<" + type + ">(0, " + a + ")";
    case Op::Not:
      return dtype == DType::Bool ? "(!" + a + ")" : "((" + type + ")~" + a + ")";
    case Op::Absolute:
      return isFloating ? call("fabs" + suffix) : ofType("absolute");
    case Op::Sign:
      return ofType("sign");
    case Op::Floor:
    case Op::Ceil:
    case Op::Truncate:
    case Op::Round:
      if (!isFloating) return a;
      return call((op == Op::Round ? "rint" : op == Op::Truncate ? "trunc" : std::string(loops::opName(op))) + suffix);
    case Op::ExpNonPositive:
      return call("exp" + suffix);
    case Op::Sigmoid:
      return ofType("sigmoid");
    case Op::Minimum:
      return ofType("minimum");
    case Op::Maximum:
      return ofType("maximum");
    case Op::FloorDivide:
      return ofType(isFloating ? "floor_divide_floating" : "floor_divide");
    case Op::TruncateDivide:
      return isFloating ? "trunc" + suffix + "(" + a + " / " + b + ")" : ofType("truncate_divide");
    case Op::Remainder:
      return ofType(isFloating ? "remainder_floating" : "remainder_of");
    case Op::Fmod:
      return isFloating ? call("fmod" + suffix) : ofType("fmod_of");
    case Op::Power:
      return isFloating ? call("pow" + suffix) : ofType("power");
    case Op::Gcd:
      return ofType("gcd");
    case Op::ShiftLeft:
      return ofType("shift_left");
    case Op::ShiftRight:
      return ofType("shift_right");
    case Op::CopySign:
      return call("copysign" + suffix);
    default:
      return call(std::string(loops::opName(op)) + suffix);
  }
}

}  // namespace graft::codegen
