#include "core/compile/loops/expression.h"

#include <bit>
#include <cassert>
#include <iterator>

namespace graft::loops {
namespace {

struct OpFacts {
  std::string_view name;
  size_t operands;
};
// In the order of Op.
constexpr OpFacts kOps[] = {
    {"constant", 0},      {"range", 0},
    {"size", 0},          {"load", 0},
    {"cast", 1},          {"negate", 1},
    {"absolute", 1},      {"not", 1},
    {"sign", 1},          {"floor", 1},
    {"ceil", 1},          {"round", 1},
    {"truncate", 1},      {"sqrt", 1},
    {"exp", 1},           {"exp_nonpositive", 1},
    {"exp2", 1},          {"expm1", 1},
    {"log", 1},           {"log2", 1},
    {"log10", 1},         {"log1p", 1},
    {"sin", 1},           {"cos", 1},
    {"tan", 1},           {"asin", 1},
    {"acos", 1},          {"atan", 1},
    {"sinh", 1},          {"cosh", 1},
    {"tanh", 1},          {"asinh", 1},
    {"acosh", 1},         {"atanh", 1},
    {"erf", 1},           {"erfc", 1},
    {"lgamma", 1},        {"sigmoid", 1},
    {"add", 2},           {"subtract", 2},
    {"multiply", 2},      {"divide", 2},
    {"floor_divide", 2},  {"truncate_divide", 2},
    {"remainder", 2},     {"fmod", 2},
    {"power", 2},         {"minimum", 2},
    {"maximum", 2},       {"atan2", 2},
    {"hypot", 2},         {"copysign", 2},
    {"nextafter", 2},     {"gcd", 2},
    {"and", 2},           {"or", 2},
    {"xor", 2},           {"shift_left", 2},
    {"shift_right", 2},   {"equal", 2},
    {"not_equal", 2},     {"less", 2},
    {"less_equal", 2},    {"select", 3},
    {"checked_index", 2}, {"checked_divisor", 1},
    {"uniform", 4},       {"reduce", 1},
};
static_assert(std::size(kOps) == static_cast<size_t>(Op::Reduce) + 1);

constexpr std::string_view kReduces[] = {"sum", "product", "minimum", "maximum", "any", "all", "argmin", "argmax"};
static_assert(std::size(kReduces) == static_cast<size_t>(ReduceKind::ArgMaximum) + 1);

}  // namespace

std::string_view opName(Op op) { return kOps[static_cast<size_t>(op)].name; }
std::string_view reduceName(ReduceKind kind) { return kReduces[static_cast<size_t>(kind)]; }
size_t operandCount(Op op) { return kOps[static_cast<size_t>(op)].operands; }
bool isComparison(Op op) { return op >= Op::Equal && op <= Op::LessEqual; }
bool isPlace(ReduceKind kind) { return kind == ReduceKind::ArgMinimum || kind == ReduceKind::ArgMaximum; }

size_t ExprPool::Hash::operator()(const Expr& e) const {
  uint64_t h = 0xcbf29ce484222325U;
  const auto mix = [&h](uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15U;
    h ^= h >> 29;
  };
  mix(static_cast<uint64_t>(e.op) | static_cast<uint64_t>(e.dtype) << 8 | static_cast<uint64_t>(e.reduce) << 16 |
      static_cast<uint64_t>(e.index) << 32);
  mix(e.bits);
  for (const ExprId o : e.operands) mix(o.index);
  for (const RangeId r : e.ranges) mix(~static_cast<uint64_t>(r.index));
  return h;
}

ExprId ExprPool::add(Expr e) {
  const auto [at, isNew] = ids_.try_emplace(e, ExprId(static_cast<uint32_t>(nodes_.size())));
  if (isNew) {
    nodes_.push_back(std::move(e));
    origins_.push_back(origin_);
  } else if (origins_[at->second.index] == 0) {
    origins_[at->second.index] = origin_;
  }
  return at->second;
}

ExprId ExprPool::number(DType dtype, double value) {
  if (!isFloatingPoint(dtype)) return number(dtype, static_cast<int64_t>(value));
  if (dtype == DType::Float32) value = static_cast<float>(value);
  return add({.op = Op::Constant, .dtype = dtype, .bits = std::bit_cast<uint64_t>(value)});
}

ExprId ExprPool::number(DType dtype, int64_t value) {
  if (isFloatingPoint(dtype)) return number(dtype, static_cast<double>(value));
  if (dtype == DType::Bool) value = value != 0;
  return add({.op = Op::Constant, .dtype = dtype, .bits = static_cast<uint64_t>(value)});
}

ExprId ExprPool::range(RangeId r) { return add({.op = Op::Range, .dtype = DType::Int64, .index = r.index}); }
ExprId ExprPool::size(SizeId s) { return add({.op = Op::Size, .dtype = DType::Int64, .index = s.index}); }

ExprId ExprPool::load(BufferId buffer, std::vector<ExprId> index, DType dtype) {
  return add({.op = Op::Load, .dtype = dtype, .index = buffer.index, .operands = std::move(index)});
}

ExprId ExprPool::cast(ExprId e, DType dtype) {
  if ((*this)[e].dtype == dtype) return e;
  return add({.op = Op::Cast, .dtype = dtype, .operands = {e}});
}

ExprId ExprPool::unary(Op op, ExprId a) { return add({.op = op, .dtype = (*this)[a].dtype, .operands = {a}}); }

ExprId ExprPool::binary(Op op, ExprId a, ExprId b) {
  const DType dtype = (*this)[a].dtype;
  assert(dtype == (*this)[b].dtype);
  return add({.op = op, .dtype = isComparison(op) ? DType::Bool : dtype, .operands = {a, b}});
}

ExprId ExprPool::select(ExprId condition, ExprId then, ExprId otherwise) {
  assert((*this)[condition].dtype == DType::Bool && (*this)[then].dtype == (*this)[otherwise].dtype);
  return add({.op = Op::Select, .dtype = (*this)[then].dtype, .operands = {condition, then, otherwise}});
}

ExprId ExprPool::checkedIndex(ExprId value, ExprId size) {
  return add({.op = Op::CheckedIndex, .dtype = DType::Int64, .operands = {value, size}});
}

ExprId ExprPool::checkedDivisor(ExprId value) {
  return add({.op = Op::CheckedDivisor, .dtype = (*this)[value].dtype, .operands = {value}});
}

ExprId ExprPool::uniform(ExprId seed, ExprId subsequence, ExprId block, ExprId number) {
  return add({.op = Op::Uniform, .dtype = DType::Float32, .operands = {seed, subsequence, block, number}});
}

ExprId ExprPool::reduce(ReduceKind kind, std::vector<RangeId> ranges, ExprId body) {
  return add({.op = Op::Reduce,
              .dtype = isPlace(kind) ? DType::Int64 : (*this)[body].dtype,
              .reduce = kind,
              .operands = {body},
              .ranges = std::move(ranges)});
}

const int64_t* ExprPool::findInteger(ExprId id) const {
  const Expr& e = (*this)[id];
  if (e.op != Op::Constant || isFloatingPoint(e.dtype)) return nullptr;
  return reinterpret_cast<const int64_t*>(&e.bits);  // signed and unsigned of one type may alias
}

double ExprPool::constant(ExprId id) const {
  const Expr& e = (*this)[id];
  assert(e.op == Op::Constant);
  return isFloatingPoint(e.dtype) ? std::bit_cast<double>(e.bits) : static_cast<double>(static_cast<int64_t>(e.bits));
}

}  // namespace graft::loops
