#include "core/torch/internal/size_names.h"

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
