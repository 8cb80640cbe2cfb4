// Index arithmetic with bounds. The property at the end is what counts: simplified expressions have the same value.
#include "core/compile/loops/simplify.h"

#include "core/compile/loops/text.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

namespace {

struct Fixture {
  Program p;
  SizeId s0 = p.addSize({"s0", 1, 512});
  SizeId s1 = p.addSize({"s1", 0, std::nullopt});
  Simplifier s{p};
  ExprId n = p.expressions.size(s0), m = p.expressions.size(s1);

  ExprId c(int64_t v) { return s.integer(v); }
  ExprId range(std::string_view name, ExprId extent) { return p.expressions.range(p.addRange(name, extent)); }
  ExprId range(std::string_view name, int64_t extent) { return range(name, c(extent)); }
  std::string text(ExprId e) { return printExpression(p, e); }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "sums have one form") {
  const ExprId i = range("i", 8), j = range("j", 64);
  CHECK(text(s.add(j, s.multiply(s.add(i, c(1)), c(64)))) == "i * 64 + j + 64");
  CHECK(text(s.subtract(s.add(i, j), i)) == "j");
  CHECK(text(s.subtract(c(5), i)) == "5 - i");
  CHECK(text(s.multiply(i, c(0))) == "0");
  CHECK(s.add(i, j) == s.add(j, i));
  CHECK(text(s.subtract(s.multiply(i, c(-1)), j)) == "-i - j");
}

TEST_CASE_METHOD(Fixture, "a division takes out what is divisible") {
  const ExprId i = range("i", 8), j = range("j", 64);
  const ExprId row = s.add(s.multiply(i, c(64)), j);
  CHECK(s.floorDivide(row, c(64)) == i);
  CHECK(s.remainder(row, c(64)) == j);
  CHECK(text(s.floorDivide(row, c(16))) == "i * 4 + j // 16");
  CHECK(text(s.remainder(row, c(16))) == "j % 16");
  CHECK(text(s.floorDivide(row, c(128))) == "i // 2");
  CHECK(text(s.remainder(row, c(128))) == "j + i % 2 * 64");
  CHECK(text(s.floorDivide(s.floorDivide(j, c(4)), c(4))) == "j // 16");
  CHECK(text(s.floorDivide(s.remainder(j, c(16)), c(4))) == "j // 4 % 4");
  const ExprId k = range("k", 4096);
  CHECK(text(s.add(s.multiply(s.remainder(s.floorDivide(k, c(8)), c(16)), c(8)), s.remainder(k, c(8)))) == "k % 128");
  CHECK(text(s.remainder(s.remainder(j, c(16)), c(4))) == "j % 4");
  CHECK(s.add(s.multiply(s.floorDivide(j, c(4)), c(4)), s.remainder(j, c(4))) == j);
  CHECK(text(s.floorDivide(s.subtract(j, c(2)), c(4))) == "(j + 2) // 4 - 1");
}

TEST_CASE_METHOD(Fixture, "what is left of numbers that wrapped around is not divided") {
  const ExprId v = p.expressions.load(p.addBuffer("v", DType::Int64, {}, Buffer::Role::Input), {}, DType::Int64);
  const ExprId left = s.subtract(v, s.add(v, c(INT64_MIN)));
  CHECK(left == c(INT64_MIN));
  CHECK(text(s.floorDivide(s.add(s.subtract(c(7), m), left), c(2)))
            .ends_with("// 2"));  // with s1 = 8 the sum wraps around
}

TEST_CASE_METHOD(Fixture, "sizes that vary divide as numbers do") {
  const ExprId i = range("i", 8), j = range("j", n), k = range("k", s.multiply(n, c(4))), f = range("f", 4);
  CHECK(s.floorDivide(s.add(s.multiply(i, n), j), n) == i);
  CHECK(s.remainder(s.add(s.multiply(i, n), j), n) == j);
  const ExprId n4 = s.multiply(n, c(4));
  const ExprId flat = s.add(s.add(s.multiply(i, n4), s.multiply(j, c(4))), f);
  CHECK(s.floorDivide(flat, n4) == i);
  CHECK(text(s.remainder(flat, n4)) == "j * 4 + f");
  CHECK(s.floorDivide(s.remainder(flat, n4), c(4)) == j);
  CHECK(text(s.floorDivide(k, c(4))) == "k // 4");
  CHECK(s.isAlwaysLess(s.floorDivide(k, c(4)), n));
  CHECK(s.isAlwaysLess(s.remainder(k, n), n));
  const ExprId padded = s.add(n, c(2)), p2 = range("q", padded);
  CHECK(s.floorDivide(s.add(s.multiply(i, padded), p2), padded) == i);
  const ExprId half = s.floorDivide(s.add(n, c(1)), c(2)), h = range("h", half);
  CHECK(s.isAlwaysLess(s.multiply(h, c(2)), n));
  CHECK_FALSE(s.isAlwaysLess(s.add(s.multiply(h, c(2)), c(1)), n));
  CHECK(s.floorDivide(s.add(s.multiply(i, half), h), half) == i);
  // A size without a limit, which may be 0: where its range runs, it is not.
  const ExprId u = range("u", m), v = range("v", m);
  CHECK(s.floorDivide(s.add(s.multiply(u, m), v), m) == u);
}

TEST_CASE_METHOD(Fixture, "bounds decide comparisons and choices") {
  const ExprId i = range("i", 8), j = range("j", n);
  CHECK(text(s.compare(Op::Less, i, c(8))) == "true");
  CHECK(text(s.compare(Op::Less, i, c(7))) == "i < 7");
  CHECK(text(s.compare(Op::LessEqual, c(0), s.subtract(i, c(2)))) == "2 <= i");
  CHECK(text(s.compare(Op::Less, s.subtract(j, c(2)), n)) == "true");
  CHECK(text(s.compare(Op::Less, s.add(j, c(2)), n)) == "j + 2 < s0");
  CHECK(text(s.compare(Op::Less, s.multiply(i, c(4)), c(10))) == "i < 3");
  CHECK(text(s.compare(Op::Less, s.floorDivide(j, c(4)), c(2))) == "j < 8");
  CHECK(text(s.compare(Op::LessEqual, s.floorDivide(j, c(4)), c(2))) == "j < 12");
  CHECK(text(s.compare(Op::LessEqual, c(2), s.floorDivide(j, c(4)))) == "8 <= j");
  CHECK(text(s.compare(Op::Less, c(2), s.add(s.floorDivide(j, c(4)), c(1)))) == "8 <= j");
  CHECK(text(s.compare(Op::Less, s.floorDivide(j, c(4)), s.floorDivide(n, c(4)))) == "j // 4 < s0 // 4");
  CHECK(text(s.compare(Op::Equal, i, c(9))) == "false");
  CHECK(text(s.compare(Op::Equal, s.multiply(i, c(2)), c(3))) == "false");
  CHECK(text(s.minimum(i, c(7))) == "i");
  CHECK(text(s.maximum(s.subtract(i, c(8)), c(0))) == "0");
  CHECK(text(s.minimum(j, n)) == "j");
  const ExprId apart = s.simplify(p.expressions.unary(Op::Absolute, s.subtract(i, c(5))));
  CHECK(text(s.compare(Op::Less, apart, c(0))) == "false");
  CHECK(text(s.compare(Op::Less, apart, c(6))) == "true");
  CHECK(text(s.compare(Op::Less, apart, c(5))) == "absolute(i - 5) < 5");
  const ExprId low = s.compare(Op::Less, i, c(3)), lower = s.compare(Op::Less, i, c(2));
  CHECK(s.logicalAnd(low, lower) == lower);
  CHECK(text(s.logicalAnd(low, s.compare(Op::LessEqual, c(5), i))) == "false");
  CHECK(s.select(s.compare(Op::Less, i, c(8)), i, j) == i);
  CHECK(text(s.select(lower, s.select(low, i, j), c(0))) == "select(i < 2, i, 0)");
}

TEST_CASE_METHOD(Fixture, "numbers that may leave 64 bits are left alone") {
  const ExprId x = range("x", INT64_MAX), y = range("y", INT64_MAX);
  const ExprId big = s.multiply(x, c(4));
  CHECK(text(s.floorDivide(big, c(4))) == "x * 4 // 4");
  CHECK(text(s.compare(Op::Less, s.add(x, y), c(0))) == "x + y < 0");
  const BufferId ids = p.addBuffer("ids", DType::Int64, {c(4)}, Buffer::Role::Input);
  const ExprId v = p.expressions.load(ids, {c(0)}, DType::Int64);
  CHECK(text(s.floorDivide(s.multiply(v, c(4)), c(4))) == "ids[0] * 4 // 4");
  CHECK(s.subtract(s.add(v, c(3)), c(3)) == v);  // that wraps around and back
  CHECK_FALSE(s.isAlwaysLess(v, s.add(v, c(1))));
}

TEST_CASE_METHOD(Fixture, "floating numbers keep their bits") {
  const BufferId b = p.addBuffer("b", DType::Float32, {c(4)}, Buffer::Role::Input);
  ExprPool& e = p.expressions;
  const ExprId v = e.load(b, {c(0)}, DType::Float32);
  const auto number = [&](double d) { return e.number(DType::Float32, d); };
  const auto folded = [&](Op op, ExprId x, ExprId y) { return text(s.simplify(e.binary(op, x, y))); };
  CHECK(folded(Op::Multiply, v, number(1)) == "b[0]");
  CHECK(folded(Op::Add, v, number(0)) == "b[0] + 0.0");
  CHECK(folded(Op::Add, v, number(-0.0)) == "b[0]");
  CHECK(folded(Op::Subtract, v, v) == "b[0] - b[0]");
  CHECK(folded(Op::Multiply, v, number(0)) == "b[0] * 0.0");
  CHECK(folded(Op::Equal, v, v) == "b[0] == b[0]");
  CHECK(folded(Op::Add, number(0.1), number(0.2)) == "0.3");
  CHECK(text(s.simplify(e.cast(e.cast(v, DType::Float64), DType::Float32))) == "b[0]");
  CHECK(text(s.simplify(e.cast(e.cast(v, DType::Float16), DType::Float32))) == "f32(f16(b[0]))");
  CHECK(text(s.simplify(e.cast(number(2.5), DType::Int64))) == "2");
  CHECK(text(s.simplify(e.cast(number(1e30), DType::Int64))) == "i64(1e+30)");
}

TEST_CASE_METHOD(Fixture, "a range is replaced everywhere, also in reductions") {
  const RangeId i = p.addRange("i", c(8)), r = p.addRange("r", c(4)), q = p.addRange("q", c(4));
  ExprPool& e = p.expressions;
  const BufferId b = p.addBuffer("b", DType::Float32, {c(8), c(4)}, Buffer::Role::Input);
  const ExprId whole = e.reduce(ReduceKind::Sum, {r}, e.load(b, {e.range(i), e.range(r)}, DType::Float32));
  CHECK(text(s.substitute(whole, {{i, s.subtract(c(7), e.range(i))}, {r, e.range(q)}})) == "sum(q < 4: b[7 - i, q])");
}
