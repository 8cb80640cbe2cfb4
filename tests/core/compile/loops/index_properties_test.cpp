// Properties of index arithmetic: a simplified expression has the same value, its bounds hold, and what is found to be
// always less is. Expressions and values are random: sizes with and without limits, ranges, data, all numbers of 64
// bits.
#include <rapidcheck.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/compile/loops/element.h"
#include "core/compile/loops/simplify.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

namespace {

[[maybe_unused]] const int configured = setenv("RC_PARAMS", "max_success=12000 max_size=100", 0);

int64_t between(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

struct Random {
  Program p;
  ExprPool& e = p.expressions;
  BufferId data;
  std::vector<ExprId> leaves;
  std::vector<RangeId> ranges;

  Random() {
    for (int64_t n = between(1, 2); n > 0; --n) {
      const int64_t min = between(0, 3);
      const bool isLimited = between(0, 2) != 0;
      p.addSize(
          {"s" + std::to_string(n), min, isLimited ? std::optional<int64_t>(min + between(0, 20)) : std::nullopt});
      leaves.push_back(e.size(SizeId(static_cast<uint32_t>(p.sizes.size() - 1))));
    }
    const std::vector<ExprId> sizes = leaves;
    for (int64_t n = between(1, 3); n > 0; --n) {
      ExprId extent = e.integer(between(0, 12));
      if (between(0, 1) != 0) extent = sizes[static_cast<size_t>(between(0, static_cast<int64_t>(sizes.size()) - 1))];
      if (between(0, 3) == 0) extent = e.binary(Op::Multiply, extent, e.integer(between(1, 4)));
      if (between(0, 3) == 0) extent = e.binary(Op::Add, extent, e.integer(between(1, 3)));
      if (between(0, 3) == 0) extent = e.binary(Op::FloorDivide, extent, e.integer(between(1, 4)));
      ranges.push_back(p.addRange("r", extent));
      leaves.push_back(e.range(ranges.back()));
      leaves.push_back(extent);
    }
    data = p.addBuffer("x", DType::Int64, {}, Buffer::Role::Input);
  }

  ExprId expression(int64_t depth) {
    if (depth <= 0 || between(0, 5) == 0) return leaf();
    const ExprId a = expression(depth - 1);
    switch (between(0, 11)) {
      case 0:
      case 1:
      case 2:
        return e.binary(Op::Add, a, expression(depth - 1));
      case 3:
        return e.binary(Op::Subtract, a, expression(depth - 1));
      case 4:
      case 5:
        return e.binary(Op::Multiply, a, between(0, 2) == 0 ? expression(depth - 2) : divisor());
      case 6:
      case 7:
        return e.binary(Op::FloorDivide, a, divisor());
      case 8:
      case 9:
        return e.binary(Op::Remainder, a, divisor());
      case 10:
        if (between(0, 3) == 0) return e.unary(Op::Absolute, a);
        return e.binary(between(0, 1) != 0 ? Op::Minimum : Op::Maximum, a, expression(depth - 1));
      default:
        return e.select(condition(depth - 1), a, expression(depth - 1));
    }
  }
  // Mostly what sizes are divided by, and now and then anything.
  ExprId divisor() {
    const int64_t kind = between(0, 9);
    if (kind < 4) return e.integer(between(1, 6));
    if (kind < 8) return leaf();
    if (kind == 8) return e.binary(Op::Multiply, leaf(), e.integer(between(1, 4)));
    return expression(1);
  }
  ExprId leaf() {
    switch (between(0, 9)) {
      case 0:
        return e.integer(between(-7, 20));
      case 1:
        return e.integer(*rc::gen::elementOf(std::vector<int64_t>{INT64_MAX, INT64_MIN, int64_t{1} << 40, 0, 1, -1}));
      case 2:
        return e.load(data, {}, DType::Int64);
      case 3:
        return e.cast(e.cast(e.load(data, {}, DType::Int64), DType::Int8), DType::Int64);
      default:
        return leaves[static_cast<size_t>(between(0, static_cast<int64_t>(leaves.size()) - 1))];
    }
  }
  ExprId condition(int64_t depth) {
    const Op op = *rc::gen::element(Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual);
    const ExprId c = e.binary(op, expression(depth), expression(depth - 1));
    if (depth <= 0 || between(0, 3) != 0) return between(0, 4) == 0 ? e.unary(Op::Not, c) : c;
    return e.binary(between(0, 1) != 0 ? Op::And : Op::Or, c, condition(depth - 1));
  }
};

// One choice of all values. Nothing where a divisor is 0.
struct Values {
  std::vector<int64_t> sizes;
  std::vector<int64_t> ranges;
  int64_t data = 0;

  std::optional<int64_t> evaluate(const ExprPool& pool, ExprId id) const {
    const Expr& x = pool[id];
    switch (x.op) {
      case Op::Constant:
        return static_cast<int64_t>(x.bits);
      case Op::Size:
        return sizes[x.index];
      case Op::Range:
        return ranges[x.index];
      case Op::Load:
        return data;
      case Op::Select: {
        const auto c = evaluate(pool, x.operands[0]);
        return c ? evaluate(pool, x.operands[*c != 0 ? 1 : 2]) : c;
      }
      default:
        break;
    }
    std::vector<Element> operands;
    for (const ExprId o : x.operands) {
      const auto v = evaluate(pool, o);
      if (!v) return v;
      operands.push_back(Element::of(*v));
    }
    const DType from = pool[x.operands[0]].dtype;
    if (x.op == Op::Cast) return castElement(operands[0], from, x.dtype).integer;
    if (operands.size() == 1) return computeUnary(x.op, x.dtype, operands[0]).integer;
    if ((x.op == Op::FloorDivide || x.op == Op::Remainder) && operands[1].integer == 0) return std::nullopt;
    return computeBinary(x.op, from, operands[0], operands[1]).integer;
  }
};

// Nothing where a range has no value.
std::optional<Values> randomValues(const Random& r) {
  Values v;
  for (const Size& s : r.p.sizes) {
    const int64_t most = s.max.value_or(between(0, 4) == 0 ? int64_t{1} << 33 : s.min + 30);
    v.sizes.push_back(between(s.min, std::max(s.min, most)));
  }
  for (const RangeId range : r.ranges) {
    const int64_t extent = r.p.evaluate(r.p.range(range).extent, v.sizes);
    if (extent <= 0) return std::nullopt;
    v.ranges.push_back(between(0, 2) == 0 ? extent - 1 : between(0, extent - 1));
  }
  v.data = between(0, 1) != 0 ? between(-300, 300) : *rc::gen::arbitrary<int64_t>();
  return v;
}

// The sizes are those of a call that may be made of these expressions.
bool isCallable(Program p, const std::vector<ExprId>& used, const Values& v) {
  Nest n;
  for (const ExprId id : used)
    n.stores.push_back(
        {p.addBuffer("y", p.expressions[id].dtype, {}, Buffer::Role::Output), {}, id, {}, {}, ReduceKind::Sum});
  p.nests.push_back(std::move(n));
  return bool(checkSizes(p, v.sizes));
}

}  // namespace

TEST_CASE("simplified expressions have the same value") {
  CHECK(rc::check([] {
    Random r;
    const ExprId before = between(0, 3) == 0 ? r.condition(3) : r.expression(4);
    Simplifier s(r.p);
    const ExprId after = s.simplify(before);
    for (int n = 0; n < 8; ++n) {
      const auto v = randomValues(r);
      if (!v || !isCallable(r.p, {before, after}, *v)) continue;
      const auto wanted = v->evaluate(r.p.expressions, before);
      if (!wanted) continue;
      const auto got = v->evaluate(r.p.expressions, after);
      RC_LOG() << printProgram(r.p) << printExpression(r.p, before) << "\nbecomes\n" << printExpression(r.p, after);
      for (const RangeId range : r.ranges)
        RC_LOG() << "\n"
                 << r.p.range(range).name << " < " << printExpression(r.p, r.p.range(range).extent) << ": "
                 << v->ranges[range.index];
      for (const int64_t size : v->sizes) RC_LOG() << "\nsize " << size;
      RC_LOG() << "\ndata " << v->data << "\n";
      RC_ASSERT(got);
      RC_ASSERT(*got == *wanted);
    }
  }));
}

TEST_CASE("bounds and orders that are found hold") {
  CHECK(rc::check([] {
    Random r;
    const ExprId a = r.expression(3), b = r.expression(3);
    Simplifier s(r.p);
    const Bounds bounds = s.bounds(a);
    const bool isLess = s.isAlwaysLess(a, b), isLessOrEqual = s.isAlwaysLessOrEqual(a, b);
    const ExprId condition = r.condition(2);
    std::vector<Polynomial> facts;
    s.math().collectFacts(condition, true, facts);
    const bool isLessThere =
        s.math().isExact(a) && s.math().isExact(b) &&
        s.math().isNonNegative(s.math().polynomial(b) - s.math().polynomial(a) - Polynomial(1), facts);
    for (int n = 0; n < 8; ++n) {
      const auto v = randomValues(r);
      if (!v || !isCallable(r.p, {a, b, condition}, *v)) continue;
      const auto x = v->evaluate(r.p.expressions, a), y = v->evaluate(r.p.expressions, b);
      RC_LOG() << printProgram(r.p) << printExpression(r.p, a) << "\nand\n" << printExpression(r.p, b) << "\n";
      if (x) {
        RC_ASSERT(!bounds.min || *bounds.min <= *x);
        RC_ASSERT(!bounds.max || *x <= *bounds.max);
      }
      if (!x || !y) continue;
      RC_ASSERT(!isLess || *x < *y);
      RC_ASSERT(!isLessOrEqual || *x <= *y);
      const auto c = v->evaluate(r.p.expressions, condition);
      RC_ASSERT(!isLessThere || !c || *c == 0 || *x < *y);
    }
  }));
}
