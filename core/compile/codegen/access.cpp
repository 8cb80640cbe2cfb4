#include "core/compile/codegen/access.h"

#include <algorithm>
#include <cassert>

namespace graft::codegen {

using loops::Expr;
using loops::Op;

namespace {

template <class T>
void mergeInto(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& x : from) {
    const auto at = std::lower_bound(to.begin(), to.end(), x);
    if (at == to.end() || *at != x) to.insert(at, x);
  }
}

// Of a function that calls the C library for each lane.
constexpr double kCalls = 200;

// About how many vector instructions one takes: measured, of a register's lanes of f32 in the first-level cache.
double weight(const Expr& e) {
  const bool isVector = e.dtype != DType::Float64;  // functions of f32 and of halves are polynomials
  switch (e.op) {
    case Op::Constant:
    case Op::Range:
    case Op::Size:
      return 0;
    case Op::Divide:
    case Op::Sqrt:
      return 4;
    case Op::Exp:
    case Op::ExpNonPositive:
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Log10:
    case Op::Sin:
    case Op::Cos:
    case Op::Asin:
    case Op::Acos:
    case Op::Atan:
      return isVector ? 12 : kCalls;
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf:
    case Op::Expm1:
    case Op::Log1p:
    case Op::Tan:
    case Op::Sinh:
    case Op::Cosh:
      return isVector ? 20 : kCalls;
    case Op::Asinh:
    case Op::Acosh:
    case Op::Atanh:
      return isVector ? 60 : kCalls;
    case Op::Power:
      return e.dtype == DType::Float32 ? 80 : kCalls;
    case Op::Fmod:
      return isFloatingPoint(e.dtype) ? kCalls : 40;
    case Op::Erfc:
    case Op::LogGamma:
    case Op::Atan2:
    case Op::Hypot:
    case Op::Gcd:
      return kCalls;
    case Op::NextAfter:
      return 10;
    case Op::Uniform:
      return 80;
    case Op::FloorDivide:
    case Op::TruncateDivide:
    case Op::Remainder:
      return 40;
    default:
      return 1;
  }
}

}  // namespace

bool isPlace(const Expr& e) { return loops::isPlace(e.reduce); }

bool Dependence::depends(RangeId r) const { return std::binary_search(ranges.begin(), ranges.end(), r); }

Accesses::Accesses(loops::Program& program, std::vector<Strides> strides)
    : program_(program), strides_(std::move(strides)), simplifier_(program) {}

const Dependence& Accesses::of(ExprId id) {
  if (const auto at = dependences_.find(id); at != dependences_.end()) return at->second;
  const Expr e = program_.expressions[id];
  Dependence d;
  if (e.op == Op::Range) d.ranges.push_back(e.range());
  for (const ExprId operand : e.operands) {
    const Dependence& part = of(operand);
    mergeInto(d.ranges, part.ranges);
    mergeInto(d.written, part.written);
    d.isUnsafe |= part.isUnsafe;
    if (e.op != Op::Load) d.operations += part.operations;
  }
  d.operations += weight(e);
  if (e.op == Op::Load) {
    if (program_.buffer(e.buffer()).role == loops::Buffer::Role::Local) mergeInto(d.written, {e.buffer()});
    d.isUnsafe |= !isAlwaysInside(id);
  }
  const bool divides =
      e.op == Op::FloorDivide || e.op == Op::TruncateDivide || e.op == Op::Remainder || e.op == Op::Fmod;
  if (divides && !isFloatingPoint(e.dtype)) {
    const int64_t* divisor = program_.expressions.findInteger(e.operands[1]);
    d.isUnsafe |= !divisor || *divisor == 0;
  }
  d.isUnsafe |= e.op == Op::CheckedIndex || e.op == Op::CheckedDivisor;
  if (e.op == Op::Reduce) {
    std::erase_if(d.ranges,
                  [&](RangeId r) { return std::find(e.ranges.begin(), e.ranges.end(), r) != e.ranges.end(); });
    d.operations = 1;
  }
  return dependences_.emplace(id, std::move(d)).first->second;
}

void Accesses::addTerm(Affine& to, ExprId atom, ExprId factor, loops::Simplifier& s) {
  for (Affine::Term& t : to.terms)
    if (t.atom == atom) {
      t.factor = s.add(t.factor, factor);
      return;
    }
  to.terms.push_back({atom, factor});
}

Affine Accesses::read(ExprId id) {
  const Expr e = program_.expressions[id];
  Affine result{{}, simplifier_.integer(0)};
  if (of(id).ranges.empty() && !of(id).isUnsafe && of(id).written.empty() && e.op != Op::Load) {
    result.constant = id;
    return result;
  }
  if (e.op == Op::Add || e.op == Op::Subtract) {
    result = read(e.operands[0]);
    const Affine b = read(e.operands[1]);
    const bool minus = e.op == Op::Subtract;
    result.constant =
        minus ? simplifier_.subtract(result.constant, b.constant) : simplifier_.add(result.constant, b.constant);
    for (const Affine::Term& t : b.terms)
      addTerm(result, t.atom, minus ? simplifier_.subtract(simplifier_.integer(0), t.factor) : t.factor, simplifier_);
    return result;
  }
  if (e.op == Op::Multiply) {
    const Affine a = read(e.operands[0]), b = read(e.operands[1]);
    if (a.terms.empty() || b.terms.empty()) {
      const Affine& varying = a.terms.empty() ? b : a;
      const ExprId factor = a.terms.empty() ? a.constant : b.constant;
      result.constant = simplifier_.multiply(varying.constant, factor);
      for (const Affine::Term& t : varying.terms)
        addTerm(result, t.atom, simplifier_.multiply(t.factor, factor), simplifier_);
      return result;
    }
  }
  addTerm(result, id, simplifier_.integer(1), simplifier_);
  return result;
}

Affine Accesses::offset(BufferId buffer, const std::vector<ExprId>& index) {
  Affine sum{{}, simplifier_.integer(0)};
  const Strides& strides = strides_[buffer.index];
  for (size_t d = 0; d < index.size(); ++d) {
    const Affine part = read(index[d]);
    sum.constant = simplifier_.add(sum.constant, simplifier_.multiply(part.constant, strides[d]));
    for (const Affine::Term& t : part.terms)
      addTerm(sum, t.atom, simplifier_.multiply(t.factor, strides[d]), simplifier_);
  }
  std::erase_if(sum.terms, [&](const Affine::Term& t) {
    const int64_t* factor = program_.expressions.findInteger(t.factor);
    return factor && *factor == 0;
  });
  return sum;
}

const Affine& Accesses::ofLoad(ExprId load) {
  if (const auto at = loads_.find(load); at != loads_.end()) return at->second;
  const Expr e = program_.expressions[load];
  return loads_.emplace(load, offset(e.buffer(), e.operands)).first->second;
}

bool Accesses::isAlwaysInside(ExprId load) {
  if (const auto at = inside_.find(load); at != inside_.end()) return at->second;
  const Expr e = program_.expressions[load];
  const std::vector<ExprId> sizes = program_.buffer(e.buffer()).sizes;
  bool inside = true;
  for (size_t d = 0; d < e.operands.size() && inside; ++d)
    inside = simplifier_.isAlwaysLessOrEqual(simplifier_.integer(0), e.operands[d]) &&
             simplifier_.isAlwaysLess(e.operands[d], sizes[d]);
  inside_.emplace(load, inside);
  return inside;
}

Strides rowMajor(loops::Program& program, BufferId buffer) {
  loops::Simplifier s(program);
  const std::vector<ExprId> sizes = program.buffer(buffer).sizes;
  Strides strides(sizes.size());
  ExprId stride = s.integer(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride = s.multiply(stride, sizes[d]);
  }
  return strides;
}

int64_t evaluateSize(const loops::Program& program, ExprId id, const int64_t* sizes) {
  const Expr& e = program.expressions[id];
  const auto operand = [&](size_t i) { return evaluateSize(program, e.operands[i], sizes); };
  const auto floorDivide = [](int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); };
  switch (e.op) {
    case Op::Constant:
      return static_cast<int64_t>(e.bits);
    case Op::Size:
      return sizes[e.index];
    case Op::Add:
      return operand(0) + operand(1);
    case Op::Subtract:
      return operand(0) - operand(1);
    case Op::Multiply:
      return operand(0) * operand(1);
    case Op::FloorDivide:
      return floorDivide(operand(0), operand(1));
    case Op::Remainder:
      return operand(0) - floorDivide(operand(0), operand(1)) * operand(1);
    case Op::Minimum:
      return std::min(operand(0), operand(1));
    case Op::Maximum:
      return std::max(operand(0), operand(1));
    case Op::Negate:
      return -operand(0);
    default:
      assert(!"a size has no other operations");
      return 0;
  }
}

}  // namespace graft::codegen
