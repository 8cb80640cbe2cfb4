#include "core/compile/loops/spelling.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cmath>

namespace graft::loops {
namespace {

constexpr std::array kDTypes{DType::Bool,  DType::UInt8,   DType::Int8,     DType::Int16,   DType::Int32,
                             DType::Int64, DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

constexpr std::array<std::string_view, 11> kWords{"and", "or",  "not",  "true", "false", "inf",
                                                  "nan", "for", "scan", "over", "in"};

constexpr std::array<std::pair<Op, std::string_view>, 3> kOfBits{
    {{Op::And, "bit_and"}, {Op::Or, "bit_or"}, {Op::Not, "bit_not"}}};

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Always with a point, an exponent or a word, so that it does not look like a whole number.
template <class Number>
std::string floatingText(Number value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

const Infix* findInfix(Op op, DType dtype) {
  if ((op == Op::And || op == Op::Or) && dtype != DType::Bool) return nullptr;
  const auto at = std::find_if(kInfixes.begin(), kInfixes.end(), [&](const Infix& i) { return i.op == op; });
  return at == kInfixes.end() ? nullptr : &*at;
}

std::string_view callName(Op op, DType dtype) {
  if (dtype != DType::Bool)
    for (const auto& [ofBits, name] : kOfBits)
      if (op == ofBits) return name;
  return opName(op);
}

std::optional<Op> findCall(std::string_view name) {
  for (const auto& [op, ofBits] : kOfBits)
    if (name == ofBits) return op;
  for (auto i = static_cast<uint8_t>(Op::Negate); i < static_cast<uint8_t>(Op::Reduce); ++i) {
    const Op op = static_cast<Op>(i);
    if (opName(op) == name && op != Op::And && op != Op::Or && op != Op::Not) return op;
  }
  return std::nullopt;
}

std::optional<ReduceKind> findReduce(std::string_view name) {
  for (auto i = static_cast<uint8_t>(ReduceKind::Sum); i <= static_cast<uint8_t>(ReduceKind::ArgMaximum); ++i)
    if (reduceName(static_cast<ReduceKind>(i)) == name) return static_cast<ReduceKind>(i);
  return std::nullopt;
}

std::string_view dtypeText(DType dtype) { return dtype == DType::Bool ? "bool" : dtypeShort(dtype); }

std::optional<DType> findDType(std::string_view text) {
  for (const DType d : kDTypes)
    if (dtypeText(d) == text) return d;
  return std::nullopt;
}

bool isProgramDType(DType dtype) { return std::find(kDTypes.begin(), kDTypes.end(), dtype) != kDTypes.end(); }

bool isPlainName(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9') || !std::all_of(s.begin(), s.end(), isWordChar)) return false;
  return std::find(kWords.begin(), kWords.end(), s) == kWords.end() && !s.starts_with("inf_") && !s.starts_with("nan_");
}

std::string plainName(std::string_view s) {
  std::string name(s);
  for (char& c : name)
    if (!isWordChar(c)) c = '_';
  return isPlainName(name) ? name : "v_" + name;
}

std::string constantText(const ExprPool& pool, ExprId id) {
  const Expr& e = pool[id];
  switch (e.dtype) {
    case DType::Bool:
      return e.bits != 0 ? "true" : "false";
    case DType::Int64:
      return fmt::format("{}", static_cast<int64_t>(e.bits));
    case DType::Float32:
      return floatingText(static_cast<float>(std::bit_cast<double>(e.bits)));
    default:
      if (isFloatingPoint(e.dtype)) return fmt::format("{}_{}", floatingText(pool.constant(id)), dtypeText(e.dtype));
      return fmt::format("{}_{}", static_cast<int64_t>(e.bits), dtypeText(e.dtype));
  }
}

}  // namespace graft::loops
