#include "core/torch/types/size_names.h"

#include "core/formats/pt2_schema.h"
#include "core/ir/size_expression.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

using Sizes = SizeNames::Sizes;

struct Symbols {
  SizeNames names;
  Sizes batch{}, length{};
  Symbols() {
    for (size_t r = 0; r < SizeNames::runs; ++r) {
      batch[r] = *names.standIn("b", r);
      length[r] = *names.standIn("n", r);
    }
  }
  template <class F>
  std::string of(F f) {
    Sizes out;
    for (size_t r = 0; r < SizeNames::runs; ++r) out[r] = f(batch[r], length[r]);
    const Dim d = names.dim(out);
    return d.isStatic() ? std::to_string(d.size) : d.symbol;
  }
};

}  // namespace

TEST_CASE("sizes are numbers, symbols, products and sums") {
  Symbols s;
  CHECK(s.of([](int64_t, int64_t) { return 7; }) == "7");
  CHECK(s.of([](int64_t b, int64_t) { return b; }) == "b");
  CHECK(s.of([](int64_t, int64_t n) { return 12 * n; }) == "12*n");
  CHECK(s.of([](int64_t b, int64_t n) { return 4 * b * n; }) == "4*b*n");
  CHECK(s.of([](int64_t, int64_t n) { return n * n; }) == "n*n");
  CHECK(s.of([](int64_t, int64_t n) { return n - 1; }) == "n - 1");
  CHECK(s.of([](int64_t, int64_t n) { return 2 * n + 3; }) == "2*n + 3");
  CHECK(s.of([](int64_t b, int64_t n) { return b + n + 1; }) == "b + n + 1");
  CHECK(s.of([](int64_t b, int64_t n) { return (n - 1) * b; }) == "b*(n - 1)");
  CHECK(s.of([](int64_t, int64_t n) { return n * n + 1; }) == "n*n + 1");
}

TEST_CASE("what rounds down has an expression only where the operator declares it") {
  Symbols s;
  const auto half = [](int64_t n) { return (n + 1) / 2; };
  CHECK(s.of([&](int64_t, int64_t n) { return half(n); }).empty());
  Sizes halves, quarters;
  for (size_t r = 0; r < SizeNames::runs; ++r) {
    halves[r] = half(s.length[r]);
    quarters[r] = half(halves[r]);
  }
  s.names.declareFloor(halves, s.length, 1, 2);
  s.names.declareFloor(quarters, halves, 1, 2);
  CHECK(s.names.dim(halves).symbol == "(n + 1)//2");
  CHECK(s.names.dim(quarters).symbol == "(n + 3)//4");
  CHECK(s.of([&](int64_t, int64_t n) { return half(n) * half(n); }) == "((n + 1)//2)*((n + 1)//2)");
  CHECK(s.of([&](int64_t, int64_t n) { return half(n) * half(n) + 1; }) == "((n + 1)//2)*((n + 1)//2) + 1");
  // n//2 is another size, though odd numbers cannot tell it from (n - 1)//2.
  CHECK(s.of([](int64_t, int64_t n) { return n / 2; }).empty());
}

TEST_CASE("small numbers stand for symbols where asked, and no symbol's numbers are an expression of another's") {
  const auto [scale, most, symbols] = GENERATE(table<SizeNames::Scale, int64_t, size_t>(
      {{SizeNames::Scale::Large, 6209, 24}, {SizeNames::Scale::Below77, 77, 8}, {SizeNames::Scale::Below14, 14, 4}}));
  for (size_t i = 0; i < symbols; ++i) {
    SizeNames names;
    names.use(scale);
    std::vector<SizeNames::Sizes> all;
    for (size_t s = 0; s < symbols; ++s) {
      SizeNames::Sizes sizes;
      for (size_t r = 0; r < SizeNames::runs; ++r) {
        sizes[r] = *names.standIn("s" + std::to_string(s), r);
        CHECK((sizes[r] > 1 && sizes[r] < most));
      }
      all.push_back(sizes);
    }
    CHECK_FALSE(names.standIn("more", 0));
    for (size_t s = 0; s < symbols; ++s) {
      SizeNames one;
      one.use(scale);
      for (size_t before = 0; before <= i; ++before) (void)one.standIn("s" + std::to_string(before), 0);
      if (s > i) CHECK_FALSE(one.dim(all[s]).isKnown());
    }
  }
}

TEST_CASE("numbers above an example stand for its symbols, so that many strides leave more than one frame") {
  SizeNames names;
  names.use(SizeNames::Scale::Above, {{"a", 4000}, {"b", 4000}, {"c", 3}});
  Sizes a, b, c;
  for (size_t r = 0; r < SizeNames::runs; ++r) {
    a[r] = *names.standIn("a", r);
    b[r] = *names.standIn("b", r);
    c[r] = *names.standIn("c", r);
    CHECK((a[r] > 4000 && b[r] > 4000 && a[r] != b[r] && c[r] < 4000));
  }
  CHECK_FALSE((a[0] == a[1] || a[1] == a[2]));
  Sizes frames = a, before = a;
  for (int64_t kernel : {10, 3, 3, 3, 3, 2, 2}) {
    const int64_t stride = kernel == 10 ? 5 : 2;
    for (size_t r = 0; r < SizeNames::runs; ++r) frames[r] = (before[r] - kernel) / stride + 1;
    names.declareFloor(frames, before, stride - kernel, stride);
    before = frames;
  }
  CHECK(names.dim(frames).symbol == "(a - 80)//320");
  CHECK(names.dim(b).symbol == "b");
}

TEST_CASE("unknown sizes get names, equal ones the same") {
  Symbols s;
  s.names.nameUnknown({"d0"});
  const auto odd = [](int64_t b, int64_t n) { return (b ^ n) + 7000; };
  const auto other = [](int64_t b, int64_t n) { return (b | n) + 9000; };
  CHECK(s.of(odd) == "d1");
  CHECK(s.of(other) == "d2");
  CHECK(s.of(odd) == "d1");
  CHECK(s.of([&](int64_t b, int64_t n) { return 3 * odd(b, n); }) == "3*d1");
}

TEST_CASE("a size of a torch.export program is read with the parentheses that it needs") {
  CHECK(pt2Expression("Add(Integer(1), FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(2)))") == "1 + (s0 - 1)//2");
  CHECK(pt2Expression("Mul(Integer(2), FloorDiv(Symbol('s0'), Integer(2)))") == "2*(s0//2)");
  CHECK(pt2Expression("FloorDiv(Symbol('s0'), Mul(Integer(2), Symbol('s1')))") == "s0//(2*s1)");
  CHECK(pt2Expression("Mul(Integer(-1), Symbol('s0'))") == "-1*s0");
}

TEST_CASE("a size has one spelling however it was written, and it means the same") {
  CHECK(pt2Spelling("(((s7 - 1)//2)) + 1") == "(s7 - 1)//2 + 1");
  CHECK(pt2Spelling("s7") == "s7");
  CHECK(pt2Spelling("s7**2") == "s7**2");
  for (const char* text :
       {"2*((s0//4))", "s0//(2*s1)", "s0 - (s1 - 3)", "-s0 + 100", "s0//2//3*5", "Max(1, 2*s0 - 1)"}) {
    INFO(text);
    const std::string spelled = pt2Spelling(text);
    CHECK(pt2Spelling(spelled) == spelled);
    const auto value = [](std::string_view size) {
      const auto e = SizeExpression::parse(size);
      return e ? e->evaluate([](std::string_view name) -> std::optional<int64_t> { return name == "s0" ? 47 : 6; })
               : std::nullopt;
    };
    REQUIRE(value(text));
    CHECK(value(spelled) == value(text));
  }
}

TEST_CASE("what a type says of a size is told again, and so is what follows from it") {
  Symbols s;
  const auto half = [](int64_t n) { return (n - 1) / 2 + 1; };
  CHECK(s.of([&](int64_t, int64_t n) { return half(n) * 8; }).empty());
  Symbols told;
  Sizes sizes{};
  for (size_t r = 0; r < SizeNames::runs; ++r) sizes[r] = half(told.length[r]);
  told.names.declare(sizes, "(n - 1)//2 + 1");
  CHECK(told.of([&](int64_t, int64_t n) { return half(n); }) == "(n - 1)//2 + 1");
  CHECK(told.of([&](int64_t, int64_t n) { return half(n) * 8; }) == "8*((n - 1)//2 + 1)");
  CHECK(told.of([&](int64_t, int64_t n) { return half(n) + 3; }) == "(n - 1)//2 + 1 + 3");
  // The same expression in other words is no other one; two that agree at these numbers alone tell nothing.
  told.names.declare(sizes, "(n + 1)//2");
  CHECK(told.of([&](int64_t, int64_t n) { return half(n); }) == "(n - 1)//2 + 1");
  told.names.declare(sizes, "(n + 2)//2");
  CHECK(told.of([&](int64_t, int64_t n) { return half(n); }).empty());
  CHECK(told.of([&](int64_t, int64_t n) { return half(n) * 8; }) == "8*((n - 1)//2 + 1)");  // told before
  told.names.declare({5, 5, 5}, "wrong");                                                   // a number is a number
  CHECK(told.of([](int64_t, int64_t) { return 5; }) == "5");
}
