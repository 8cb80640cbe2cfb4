#include "tests/support/random_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "core/compile/loops/element.h"

namespace graft::loops {
namespace {

bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

class Maker {
 public:
  Maker(uint64_t seed, const RandomOptions& options) : options_(options), random_(seed) {}

  RandomCall make() {
    makeSizes();
    for (int64_t n = between(1, 4); n > 0; --n) {
      std::vector<ExprId> sizes;
      for (int64_t d = between(0, 3); d > 0; --d) sizes.push_back(dimension());
      readable_.push_back(p_.addBuffer("x", anyDType(), std::move(sizes), Buffer::Role::Input));
    }
    const int64_t nests = between(1, options_.mostNests);
    for (int64_t i = 0; i < nests; ++i)
      makeNest(i + 1 == nests || chance(2) ? Buffer::Role::Output : Buffer::Role::Temporary);
    call_.program = std::move(p_);
    for (const BufferId id : call_.program.inputs()) makeMemory(id);
    for (const BufferId id : call_.program.outputs()) makeMemory(id);
    call_.clearOutputs();
    return std::move(call_);
  }

 private:
  // Chance
  // --------------------------------------------------------------------------------------------------------------------
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t oneIn) { return between(1, oneIn) == 1; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(between(0, static_cast<int64_t>(items.size()) - 1))];
  }

  // Sizes and dtypes
  // --------------------------------------------------------------------------------------------------------------------
  void makeSizes() {
    if (!options_.hasSizes) return;
    for (int64_t n = between(0, 2); n > 0; --n) {
      const int64_t min = between(0, 1), value = between(min, 6);
      p_.addSize({"s" + std::to_string(p_.sizes.size()), min,
                  chance(2) ? std::nullopt : std::optional<int64_t>(between(6, 100))});
      call_.sizes.push_back(value);
    }
  }

  ExprId dimension() {
    if (!p_.sizes.empty() && chance(3)) {
      const ExprId s = e_.size(SizeId(static_cast<uint32_t>(between(0, static_cast<int64_t>(p_.sizes.size()) - 1))));
      switch (between(0, 4)) {
        case 0:
          return e_.binary(Op::Multiply, s, e_.integer(2));
        case 1:
          return e_.binary(Op::Add, s, e_.integer(1));
        case 2:
          return e_.binary(Op::FloorDivide, e_.binary(Op::Add, s, e_.integer(1)), e_.integer(2));
        default:
          return s;
      }
    }
    static const std::vector<int64_t> sizes{1, 2, 3, 4, 5, 6, 8, 12, 17};
    return e_.integer(chance(25) ? 0 : pick(sizes));
  }
  int64_t value(ExprId extent) const { return p_.evaluate(extent, call_.sizes); }

  DType anyDType() {
    static const std::vector<DType> all{DType::Float32, DType::Float32, DType::Float32, DType::Float64,
                                        DType::Int64,   DType::Int32,   DType::Int16,   DType::Int8,
                                        DType::UInt8,   DType::Bool,    DType::Float16, DType::BFloat16};
    const DType d = pick(all);
    return !options_.hasHalves && isHalf(d) ? DType::Float32 : d;
  }
  // What expressions are computed in.
  DType computing(DType d) const { return isHalf(d) ? DType::Float32 : d; }

  // Nests
  // --------------------------------------------------------------------------------------------------------------------
  void makeNest(Buffer::Role role) {
    std::vector<ExprId> sizes;
    for (int64_t d = between(0, 3); d > 0; --d) sizes.push_back(dimension());
    const BufferId out = p_.addBuffer(role == Buffer::Role::Output ? "y" : "t", anyDType(), sizes, role);
    Nest nest;
    // The outer ranges are those of the first dimensions, and each of the others runs inside.
    const size_t outer = static_cast<size_t>(between(0, static_cast<int64_t>(sizes.size())));
    std::vector<ExprId> index;
    for (size_t d = 0; d < outer; ++d) index.push_back(counted(sizes[d], nest.outer));
    scope_ = nest.outer;
    std::vector<BufferId> locals;
    for (int64_t n = between(0, 2); n > 0; --n) locals.push_back(makeLocal(nest));
    const std::vector<ExprId> rest(sizes.begin() + static_cast<std::ptrdiff_t>(outer), sizes.end());
    const size_t cut = rest.empty() ? 0 : static_cast<size_t>(between(0, static_cast<int64_t>(rest.size()) - 1));
    const int64_t* length = rest.empty() ? nullptr : e_.findInteger(rest[cut]);
    if (length != nullptr && *length >= 2 && chance(4)) {
      // As cat does: two pieces that follow each other.
      const int64_t total = *length, first = between(1, total - 1);
      makeStore(nest, out, index, rest, {cut, 0, first});
      makeStore(nest, out, index, rest, {cut, first, total - first});
    } else {
      makeStore(nest, out, index, rest, {});
    }
    for (const BufferId l : locals) std::erase(readable_, l);
    // What a nest writes, a later one reads.
    readable_.push_back(out);
    p_.nests.push_back(std::move(nest));
    scope_.clear();
  }

  // An index that counts through a dimension, by a new range, or by two: i, n - 1 - i, i*4 + j.
  ExprId counted(ExprId extent, std::vector<RangeId>& ranges) {
    const int64_t* n = e_.findInteger(extent);
    if (n != nullptr && *n > 3 && chance(3)) {
      const int64_t total = *n;
      for (const int64_t factor : {2, 3, 4})
        if (total % factor == 0) {
          ranges.push_back(p_.addRange("i", e_.integer(total / factor)));
          const ExprId high = e_.range(ranges.back());
          ranges.push_back(p_.addRange("i", e_.integer(factor)));
          return e_.binary(Op::Add, e_.binary(Op::Multiply, high, e_.integer(factor)), e_.range(ranges.back()));
        }
    }
    ranges.push_back(p_.addRange("i", extent));
    const ExprId r = e_.range(ranges.back());
    if (chance(12)) return e_.binary(Op::Subtract, e_.binary(Op::Subtract, extent, e_.integer(1)), r);
    return r;
  }

  BufferId makeLocal(Nest& nest) {
    std::vector<ExprId> sizes;
    if (chance(3)) sizes.push_back(e_.integer(between(1, 6)));
    const BufferId l = p_.addBuffer("m", computing(anyDType()), sizes, Buffer::Role::Local);
    makeStore(nest, l, {}, sizes, {});
    readable_.push_back(l);
    return l;
  }

  struct Piece {
    size_t dimension = 0;
    int64_t begin = 0, length = -1;  // -1: all of it
  };
  void makeStore(Nest& nest, BufferId buffer, std::vector<ExprId> index, const std::vector<ExprId>& sizes,
                 Piece piece) {
    Store s;
    s.buffer = buffer;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (piece.length < 0 || d != piece.dimension)
        index.push_back(counted(sizes[d], s.ranges));
      else
        index.push_back(e_.binary(Op::Add, counted(e_.integer(piece.length), s.ranges), e_.integer(piece.begin)));
    }
    s.index = std::move(index);
    // The order of the loops is not that of the dimensions.
    if (s.ranges.size() > 1 && chance(3)) std::shuffle(s.ranges.begin(), s.ranges.end(), random_);
    const std::vector<RangeId> outside = scope_;
    scope_.insert(scope_.end(), s.ranges.begin(), s.ranges.end());
    const DType dtype = p_.buffer(buffer).dtype;
    const bool isScanned = options_.hasScans && !s.ranges.empty() && dtype != DType::Bool && chance(6);
    ExprId v = number(computing(dtype), isScanned ? 1 : options_.deepest);
    if (options_.isExact && isFloatingPoint(computing(dtype))) v = clamped(v);
    s.value = e_.cast(v, dtype);
    if (isScanned) {
      s.scan = pick(s.ranges);
      static const std::vector<ReduceKind> kinds{ReduceKind::Sum, ReduceKind::Minimum, ReduceKind::Maximum};
      s.scanKind = pick(kinds);
    }
    scope_ = outside;
    nest.stores.push_back(std::move(s));
  }

  // So that whole numbers stay small from nest to nest.
  ExprId clamped(ExprId v) {
    const DType d = e_[v].dtype;
    return e_.binary(Op::Minimum, e_.binary(Op::Maximum, v, e_.number(d, -8.0)), e_.number(d, 8.0));
  }

  // Expressions
  // --------------------------------------------------------------------------------------------------------------------
  ExprId any(DType d, int depth) { return d == DType::Bool ? condition(depth) : number(d, depth); }

  ExprId constant(DType d) {
    if (d == DType::Bool) return e_.boolean(chance(2));
    if (!isFloatingPoint(d)) return e_.number(d, d == DType::UInt8 ? between(0, 5) : between(-5, 5));
    if (options_.isExact) return e_.number(d, static_cast<double>(between(-4, 4)));
    static const std::vector<double> values{0.0,
                                            -0.0,
                                            1.0,
                                            -1.5,
                                            0.1,
                                            3e38,
                                            std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN(),
                                            2.0,
                                            1e-40};
    return e_.number(d, pick(values));
  }

  ExprId leaf(DType d) {
    if (chance(8)) return constant(d);
    if (!scope_.empty() && chance(8)) return converted(e_.range(pick(scope_)), d);
    return converted(load(), d);
  }

  ExprId converted(ExprId v, DType to) {
    const DType from = e_[v].dtype;
    // A floating number that may be anything has no integer.
    if (!options_.isExact && isFloatingPoint(from) && !isFloatingPoint(to) && to != DType::Bool)
      v = e_.select(
          e_.binary(Op::Less, e_.unary(Op::Absolute, e_.cast(v, DType::Float64)), e_.number(DType::Float64, 100.0)),
          e_.cast(v, DType::Float64), e_.number(DType::Float64, 3.0));
    return e_.cast(v, to);
  }

  ExprId number(DType d, int depth) {
    if (d == DType::Bool) return condition(depth);
    if (depth <= 0) return leaf(d);
    switch (between(0, 9)) {
      case 0:
        return leaf(d);
      case 1:
        return reduction(d, depth - 1);
      case 2:
        return e_.select(condition(depth - 1), number(d, depth - 1), number(d, depth - 1));
      case 3: {
        static const std::vector<DType> all{DType::Float32, DType::Float64, DType::Int64, DType::Int32,
                                            DType::Int16,   DType::Int8,    DType::UInt8, DType::Bool};
        return converted(any(pick(all), depth - 1), d);
      }
      case 4: {
        // Used twice.
        const ExprId shared = number(d, depth - 1);
        return e_.binary(pick(std::vector<Op>{Op::Add, Op::Maximum, Op::Subtract}), shared,
                         e_.binary(Op::Minimum, shared, number(d, depth - 2)));
      }
      case 5:
      case 6:
        return unary(d, depth);
      default:
        return binary(d, depth);
    }
  }

  ExprId unary(DType d, int depth) {
    std::vector<Op> ops{Op::Negate, Op::Absolute, Op::Sign};
    if (!isFloatingPoint(d)) {
      ops.push_back(Op::Not);
    } else {
      ops.insert(ops.end(), {Op::Floor, Op::Ceil, Op::Round, Op::Truncate});
      if (!options_.isExact)
        ops.insert(ops.end(), {Op::Sqrt, Op::Exp,   Op::Exp2,  Op::Expm1, Op::Log,  Op::Log2, Op::Log10,  Op::Log1p,
                               Op::Sin,  Op::Cos,   Op::Tan,   Op::Asin,  Op::Acos, Op::Atan, Op::Sinh,   Op::Cosh,
                               Op::Tanh, Op::Asinh, Op::Acosh, Op::Atanh, Op::Erf,  Op::Erfc, Op::Sigmoid});
    }
    return e_.unary(pick(ops), number(d, depth - 1));
  }

  ExprId binary(DType d, int depth) {
    std::vector<Op> ops{Op::Add, Op::Subtract, Op::Multiply, Op::Minimum, Op::Maximum};
    if (!isFloatingPoint(d)) {
      ops.insert(ops.end(), {Op::And, Op::Or, Op::Xor, Op::ShiftLeft, Op::ShiftRight, Op::FloorDivide,
                             Op::TruncateDivide, Op::Remainder, Op::Fmod, Op::Power, Op::Gcd});
    } else if (!options_.isExact) {
      ops.insert(ops.end(), {Op::Divide, Op::FloorDivide, Op::TruncateDivide, Op::Remainder, Op::Fmod, Op::Power,
                             Op::Atan2, Op::Hypot, Op::CopySign});
    }
    const Op op = pick(ops);
    const bool isDivision = op == Op::FloorDivide || op == Op::TruncateDivide || op == Op::Remainder || op == Op::Fmod;
    const ExprId a = number(d, depth - 1);
    if (op == Op::Power && !isFloatingPoint(d))
      return e_.binary(op, a, e_.number(d, d == DType::UInt8 ? between(0, 4) : between(-1, 4)));
    if (!isDivision || isFloatingPoint(d)) return e_.binary(op, a, number(d, depth - 1));
    const ExprId plain = e_.number(d, pick(std::vector<int64_t>{1, 2, 3, 4, 7}));
    if (!options_.hasChecks || chance(2)) return e_.binary(op, a, plain);
    // x | 1 is never 0.
    const ExprId odd = e_.binary(Op::Or, number(d, depth - 2), e_.number(d, int64_t{1}));
    return e_.binary(op, a, e_.checkedDivisor(odd));
  }

  ExprId condition(int depth) {
    if (depth <= 0) return leaf(DType::Bool);
    switch (between(0, 5)) {
      case 0:
        return e_.unary(Op::Not, condition(depth - 1));
      case 1:
        return e_.binary(pick(std::vector<Op>{Op::And, Op::Or, Op::Xor}), condition(depth - 1), condition(depth - 1));
      case 2:
        return reduction(DType::Bool, depth - 1);
      default: {
        static const std::vector<DType> all{DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::UInt8};
        const DType d = pick(all);
        return e_.binary(pick(std::vector<Op>{Op::Equal, Op::NotEqual, Op::Less, Op::LessEqual}), number(d, depth - 1),
                         number(d, depth - 1));
      }
    }
  }

  ExprId reduction(DType d, int depth) {
    // Reductions in reductions take long.
    if (reductions_ > 1) return any(d, depth - 1);
    std::vector<RangeId> ranges;
    for (int64_t n = between(1, 2); n > 0; --n) ranges.push_back(p_.addRange("r", dimension()));
    const std::vector<RangeId> outside = scope_;
    scope_.insert(scope_.end(), ranges.begin(), ranges.end());
    ++reductions_;
    ReduceKind kind = pick(std::vector<ReduceKind>{ReduceKind::Any, ReduceKind::All});
    DType body = d;
    if (d != DType::Bool) {
      std::vector<ReduceKind> kinds{ReduceKind::Sum, ReduceKind::Minimum, ReduceKind::Maximum};
      if (!isFloatingPoint(d) || !options_.isExact) kinds.push_back(ReduceKind::Product);
      if (d == DType::Int64) kinds.insert(kinds.end(), {ReduceKind::ArgMinimum, ReduceKind::ArgMaximum});
      kind = pick(kinds);
      if (kind == ReduceKind::ArgMinimum || kind == ReduceKind::ArgMaximum)
        body = pick(std::vector<DType>{DType::Float32, DType::Int64, DType::UInt8});
    }
    ExprId inner = any(body, depth);
    // The least of nothing is no small number.
    const bool isEmpty =
        std::any_of(ranges.begin(), ranges.end(), [&](RangeId r) { return value(p_.range(r).extent) == 0; });
    if (options_.isExact && isFloatingPoint(body)) inner = clamped(inner);
    --reductions_;
    scope_ = outside;
    ExprId out = e_.reduce(kind, std::move(ranges), inner);
    if (options_.isExact && isFloatingPoint(d) && isEmpty) out = clamped(out);
    return out;
  }

  // An element of some buffer, at an index made of what is in scope.
  ExprId load() {
    const BufferId id = pick(readable_);
    const Buffer b = p_.buffer(id);
    std::vector<ExprId> index, guards;
    for (const ExprId size : b.sizes) index.push_back(place(size, guards));
    ExprId v = e_.load(id, std::move(index), b.dtype);
    if (isHalf(b.dtype)) v = e_.cast(v, DType::Float32);
    if (guards.empty()) return v;
    ExprId guard = guards[0];
    for (size_t i = 1; i < guards.size(); ++i) guard = e_.binary(Op::And, guard, guards[i]);
    const DType d = e_[v].dtype;
    return e_.select(guard, v, d == DType::Bool ? e_.boolean(false) : e_.number(d, int64_t{0}));
  }

  ExprId place(ExprId size, std::vector<ExprId>& guards) {
    const int64_t* known = e_.findInteger(size);
    const int64_t n = known != nullptr ? *known : -1;
    std::vector<RangeId> same;
    for (const RangeId r : scope_)
      if (p_.range(r).extent == size) same.push_back(r);
    const auto minus = [&](ExprId a, ExprId b) { return e_.binary(Op::Subtract, a, b); };
    if (!same.empty() && !chance(4)) {
      const ExprId r = e_.range(pick(same));
      if (chance(6)) return minus(minus(size, e_.integer(1)), r);
      return r;
    }
    if (n > 0 && chance(4)) return e_.integer(between(0, n - 1));
    if (n > 0 && !scope_.empty() && chance(3)) {
      // Views of views: a flat index and its digits.
      const ExprId flat = e_.binary(Op::Add, e_.binary(Op::Multiply, e_.range(pick(scope_)), e_.integer(between(1, 4))),
                                    e_.range(pick(scope_)));
      const ExprId high = e_.binary(Op::FloorDivide, flat, e_.integer(between(1, 4)));
      return e_.binary(Op::Remainder, high, e_.integer(n));
    }
    if (n > 0 && options_.hasChecks && chance(4)) {
      // What is checked is in range: data reduced to it.
      const ExprId data = converted(leaf(DType::Int32), DType::Int64);
      return e_.checkedIndex(e_.binary(Op::Remainder, data, e_.integer(n)), size);
    }
    // Guarded, as pad and cat are.
    const ExprId r = scope_.empty() ? e_.integer(between(0, 3)) : e_.range(pick(scope_));
    const ExprId moved = minus(r, e_.integer(between(0, 2)));
    guards.push_back(e_.binary(Op::LessEqual, e_.integer(0), moved));
    guards.push_back(e_.binary(Op::Less, moved, size));
    return moved;
  }

  // Memory
  // --------------------------------------------------------------------------------------------------------------------
  void makeMemory(BufferId id) {
    const Buffer& b = call_.program.buffer(id);
    const std::vector<int64_t> shape = call_.program.shape(id, call_.sizes);
    Memory m;
    m.strides.resize(shape.size());
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (options_.isStrided && chance(3)) std::shuffle(order.begin(), order.end(), random_);
    const int64_t gap = options_.isStrided && chance(3) ? 2 : 1;
    int64_t count = gap;
    for (size_t d = shape.size(); d-- > 0;) {
      const size_t dimension = order[d];
      const bool isRepeated = options_.isStrided && b.role == Buffer::Role::Input && chance(8);
      m.strides[dimension] = isRepeated ? 0 : count;
      if (!isRepeated) count *= std::max<int64_t>(shape[dimension], 1);
    }
    const size_t bytes = static_cast<size_t>(count) * dtypeSize(b.dtype);
    call_.storage.push_back(std::make_unique<std::byte[]>(bytes));
    call_.storageSizes.push_back(bytes);
    m.data = call_.storage.back().get();
    if (b.role == Buffer::Role::Input)
      for (int64_t i = 0; i < count; ++i)
        storeElement(call_.storage.back().get() + static_cast<size_t>(i) * dtypeSize(b.dtype), b.dtype, data(b.dtype));
    call_.buffers.push_back(std::move(m));
  }

  Element data(DType d) {
    if (d == DType::Bool) return Element::of(between(0, 1));
    if (!isFloatingPoint(d)) return Element::of(d == DType::UInt8 ? between(0, 9) : between(-9, 9));
    if (options_.isExact) return Element::of(static_cast<double>(between(-4, 4)));
    static const std::vector<double> odd{
        0.0, -0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1e30, 1e-41};
    if (chance(12)) return Element::of(pick(odd));
    return Element::of(static_cast<double>(between(-3000, 3000)) / 700);
  }

  const RandomOptions& options_;
  std::mt19937_64 random_;
  Program p_;
  ExprPool& e_ = p_.expressions;
  RandomCall call_;
  std::vector<BufferId> readable_;
  std::vector<RangeId> scope_;
  int reductions_ = 0;
};

}  // namespace

std::vector<std::byte> RandomCall::outputBytes() const {
  std::vector<std::byte> out;
  const size_t inputs = program.inputs().size();
  const std::vector<BufferId> outputs = program.outputs();
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::vector<int64_t> shape = program.shape(outputs[o], sizes);
    const size_t bytes = dtypeSize(program.buffer(outputs[o]).dtype);
    const Memory& m = buffers[inputs + o];
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0, rest = i;
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) offset += rest % shape[d] * m.strides[d];
      const auto* at = static_cast<const std::byte*>(m.data) + static_cast<size_t>(offset) * bytes;
      out.insert(out.end(), at, at + bytes);
    }
  }
  return out;
}

void RandomCall::clearOutputs() {
  for (size_t i = program.inputs().size(); i < storage.size(); ++i)
    std::memset(storage[i].get(), 0xa5, storageSizes[i]);
}

RandomCall randomCall(uint64_t seed, const RandomOptions& options) { return Maker(seed, options).make(); }

}  // namespace graft::loops
