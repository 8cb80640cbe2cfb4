// What programs compute, element by element. The numbers of operators are PyTorch's.
#include "core/compile/loops/interpret.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/compile/loops/element.h"
#include "core/compile/loops/half.h"
#include "core/compile/loops/text.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Program parsed(std::string_view text) {
  auto p = parseProgram(text);
  if (!p) FAIL(p.error().format());
  return std::move(*p);
}

template <class T>
Memory memory(std::vector<T>& data, std::vector<int64_t> strides) {
  return {data.data(), std::move(strides)};
}

// One f32 in, one f32 out, elementwise.
std::vector<float> computed(std::string_view expression, std::vector<float> x, std::vector<float> y) {
  const std::string text =
      "loops 1\nsize n in 1..\ninput x: f32[n]\ninput y: f32[n]\noutput z: f32[n]\nnest i < n\n  z[i] = " +
      std::string(expression) + "\n";
  const Program p = parsed(text);
  std::vector<float> z(x.size(), -77);
  const std::vector<Memory> buffers{memory(x, {1}), memory(y, {1}), memory(z, {1})};
  const std::vector<int64_t> sizes{static_cast<int64_t>(x.size())};
  const Status s = interpret(p, sizes, buffers);
  if (!s) FAIL(s.error().message);
  return z;
}

void checkSame(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], wanted[i]);
    CHECK((std::isnan(wanted[i]) ? std::isnan(got[i]) : std::memcmp(&got[i], &wanted[i], sizeof(float)) == 0));
  }
}

int64_t castTo(DType to, float x) {
  return castElement(Element::of(static_cast<double>(x)), DType::Float32, to).integer;
}

}  // namespace

// The known answers of Philox4x32-10 that its authors give, as cuRAND makes f32 of them.
TEST_CASE("random numbers are those of Philox") {
  struct Known {
    uint64_t seed, subsequence, block;
    std::array<uint32_t, 4> numbers;
  };
  const Known cases[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  const Program p = parsed(R"(loops 1
input where: i64[3]
output y: f32[4]
nest i < 4
  y[i] = uniform(where[0], where[1], where[2], i)
)");
  for (const Known& k : cases) {
    std::vector<int64_t> where{static_cast<int64_t>(k.seed), static_cast<int64_t>(k.subsequence),
                               static_cast<int64_t>(k.block)};
    std::vector<float> y(4, -77), wanted;
    for (const uint32_t n : k.numbers) wanted.push_back(static_cast<float>(n) * 0x1p-32F + 0x1p-33F);
    const std::vector<Memory> buffers{memory(where, {1}), memory(y, {1})};
    REQUIRE(interpret(p, {}, buffers));
    checkSame(y, wanted);
  }
}

TEST_CASE("softmax is what its text says") {
  const Program p = parsed(R"(loops 1
size n in 0..
input x: f32[n, 3]
output y: f32[n, 3]
nest i < n
  local m: f32[]
  local s: f32[]
  m[] = maximum(r < 3: x[i, r])
  s[] = sum(r < 3: exp(x[i, r] - m[]))
  y[i, j] = exp(x[i, j] - m[]) / s[] for j < 3
)");
  std::vector<float> x{1, 2, 3, 0, 0, 0}, y(6);
  const std::vector<Memory> buffers{memory(x, {3, 1}), memory(y, {1, 2})};  // written transposed
  REQUIRE(interpret(p, std::vector<int64_t>{2}, buffers));
  CHECK(y[0] == Approx(0.09003057));
  CHECK(y[2] == Approx(0.24472848));
  CHECK(y[4] == Approx(0.66524094));
  CHECK(y[1] == Approx(1.0 / 3));
  CHECK(interpret(p, std::vector<int64_t>{0}, buffers));
  CHECK_FALSE(interpret(p, std::vector<int64_t>{-1}, buffers));
}

TEST_CASE("floating operators treat NaN, infinities and -0 as PyTorch does") {
  const std::vector<float> x{5, -5, 5, -5, 5, 0, -0.0F, kInf, 3, kNaN}, y{3, 3, -3, -3, 0, 0, 3, 3, kInf, 1};
  checkSame(computed("x[i] % y[i]", x, y), {2, 1, -1, -2, kNaN, kNaN, -0.0F, kNaN, 3, kNaN});
  checkSame(computed("fmod(x[i], y[i])", x, y), {2, -2, 2, -2, kNaN, kNaN, -0.0F, kNaN, 3, kNaN});
  checkSame(computed("x[i] // y[i]", x, y), {1, -2, -2, 1, kInf, kNaN, -0.0F, kNaN, 0, kNaN});
  checkSame(computed("truncate_divide(x[i], y[i])", x, y), {1, -1, -1, 1, kInf, kNaN, -0.0F, kInf, 0, kNaN});
  const std::vector<float> a{kNaN, 1, -0.0F, 0}, b{1, kNaN, 0, -0.0F};
  checkSame(computed("minimum(x[i], y[i])", a, b), {kNaN, kNaN, -0.0F, 0});
  checkSame(computed("maximum(x[i], y[i])", a, b), {kNaN, kNaN, -0.0F, 0});
  checkSame(computed("sign(x[i])", {kNaN, -0.0F, 0, -3}, a), {0, 0, 0, -1});
  checkSame(computed("round(x[i])", {0.5F, 1.5F, 2.5F, -0.5F}, a), {0, 2, 2, -0.0F});
  checkSame(computed("copysign(x[i], y[i])", {1, 1, 1, 1}, b), {1, 1, 1, -1});
  checkSame(computed("select(x[i] <= y[i], 1.0, 2.0)", {kNaN, 1, 2}, {1, 1, 1}), {2, 1, 2});
}

TEST_CASE("reductions find the first place, and NaN before all") {
  checkSame(computed("f32(argmax(r < n: x[r]))", {1, 3, 3, 2}, {0, 0, 0, 0}), {1, 1, 1, 1});
  checkSame(computed("f32(argmax(r < n: x[r]))", {1, kNaN, 5, kNaN}, {0, 0, 0, 0}), {1, 1, 1, 1});
  checkSame(computed("f32(argmin(r < n: x[r]))", {1, kNaN, 0, kNaN}, {0, 0, 0, 0}), {1, 1, 1, 1});
  checkSame(computed("maximum(r < n: x[r])", {1, kNaN}, {0, 0}), {kNaN, kNaN});
  checkSame(computed("sum(r < n: x[r])", {-0.0F}, {0}), {0});
  checkSame(computed("product(r < n: x[r])", {1e30F, 1e30F, 0}, {0, 0, 0}), {kNaN, kNaN, kNaN});
  checkSame(computed("maximum(r < 0: x[0])", {5}, {0}), {-kInf});
  checkSame(computed("select(any(r < n: x[r] < 0.0), 1.0, 0.0)", {1, -1}, {0, 0}), {1, 1});
}

TEST_CASE("a cast out of range does what x86 does") {
  for (const float x : {kNaN, kInf, 3e9F, -3e9F, 1e19F}) {
    CAPTURE(x);
    CHECK(castTo(DType::Int32, x) == INT32_MIN);
    CHECK(castTo(DType::Int16, x) == 0);
    CHECK(castTo(DType::Int8, x) == 0);
    CHECK(castTo(DType::Bool, x) == 1);
  }
  CHECK(castTo(DType::Int64, kNaN) == INT64_MIN);
  CHECK(castTo(DType::Int64, 3e9F) == 3000000000);
  CHECK(castTo(DType::UInt8, 300) == 44);
  CHECK(castTo(DType::UInt8, -300) == 212);
  CHECK(castTo(DType::Int8, -300) == -44);
  CHECK(castTo(DType::Int32, -2.9F) == -2);
}

TEST_CASE("integers wrap around and divide as PyTorch's") {
  const auto binary = [](Op op, DType d, int64_t a, int64_t b) {
    return computeBinary(op, d, Element::of(a), Element::of(b)).integer;
  };
  CHECK(binary(Op::Add, DType::UInt8, 200, 100) == 44);
  CHECK(binary(Op::Multiply, DType::Int8, 100, 3) == 44);
  CHECK(binary(Op::Add, DType::Int64, INT64_MAX, 1) == INT64_MIN);
  CHECK(binary(Op::FloorDivide, DType::Int64, INT64_MIN, -1) == INT64_MIN);
  CHECK(binary(Op::Remainder, DType::Int32, INT32_MIN, -1) == 0);
  const std::vector<int64_t> x{7, -7, 7, -7}, y{2, 2, -2, -2}, floor{3, -4, -4, 3}, rest{1, 1, -1, -1};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(binary(Op::FloorDivide, DType::Int64, x[i], y[i]) == floor[i]);
    CHECK(binary(Op::Remainder, DType::Int64, x[i], y[i]) == rest[i]);
    CHECK(binary(Op::Fmod, DType::Int64, x[i], y[i]) == x[i] % y[i]);
    CHECK(binary(Op::TruncateDivide, DType::Int64, x[i], y[i]) == x[i] / y[i]);
  }
  CHECK(binary(Op::Power, DType::Int64, 2, -1) == 0);
  CHECK(binary(Op::Power, DType::Int64, -1, -3) == -1);
  CHECK(binary(Op::Power, DType::Int64, 3, 45) == 2833654757305440083);
  CHECK(binary(Op::ShiftLeft, DType::Int32, 1, 33) == 0);
  CHECK(binary(Op::ShiftLeft, DType::Int32, -1, 31) == INT32_MIN);
  CHECK(binary(Op::ShiftRight, DType::Int32, -8, 40) == -1);
  CHECK(binary(Op::ShiftRight, DType::UInt8, 200, 9) == 0);
  CHECK(computeUnary(Op::Absolute, DType::Int8, Element::of(int64_t{-128})).integer == -128);
  CHECK(computeUnary(Op::Not, DType::UInt8, Element::of(int64_t{1})).integer == 254);
}

TEST_CASE("f16 and bf16 round to nearest even") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(halfToFloat(half))) REQUIRE(floatToHalf(halfToFloat(half)) == half);
    if (!std::isnan(bfloatToFloat(half))) REQUIRE(floatToBFloat(bfloatToFloat(half)) == half);
  }
  CHECK(halfToFloat(floatToHalf(65519.9F)) == 65504);
  CHECK(std::isinf(halfToFloat(floatToHalf(65520))));
  CHECK(halfToFloat(floatToHalf(2049)) == 2048);
  CHECK(halfToFloat(floatToHalf(2051)) == 2052);
  CHECK(halfToFloat(floatToHalf(1e-8F)) == 0);
  CHECK(halfToFloat(floatToHalf(6e-8F)) == 0x1p-24F);
  CHECK(std::isnan(halfToFloat(floatToHalf(kNaN))));
  CHECK(std::isnan(bfloatToFloat(floatToBFloat(kNaN))));
  CHECK(bfloatToFloat(floatToBFloat(257)) == 256);
}

TEST_CASE("scans combine along their range, for each value of the others") {
  const Program p = parsed(R"(loops 1
input x: f32[2, 3]
output y: f32[2, 3]
output z: f32[2, 3]
nest
  y[i, j] = x[i, j] for i < 2, j < 3 scan sum over i
  z[i, j] = x[i, j] for i < 2, j < 3 scan maximum over j
)");
  std::vector<float> x{1, 5, 2, 3, 1, kNaN}, y(6), z(6);
  REQUIRE(interpret(p, {}, std::vector<Memory>{memory(x, {3, 1}), memory(y, {3, 1}), memory(z, {3, 1})}));
  checkSame(y, {1, 5, 2, 4, 6, kNaN});
  checkSame(z, {1, 5, 5, 3, 3, kNaN});
}

TEST_CASE("a check that fails is reported, and the run goes on") {
  const Program p = parsed(R"(loops 1
input ids: i64[3]
input x: f32[2]
output y: f32[3]
nest i < 3
  y[i] = x[checked_index(ids[i], 2)]
)");
  std::vector<int64_t> ids{1, 2, 0};
  std::vector<float> x{10, 20}, y(3);
  const Status s = interpret(p, {}, std::vector<Memory>{memory(ids, {1}), memory(x, {1}), memory(y, {1})});
  REQUIRE_FALSE(s);
  CHECK(s.error().kind == ErrorKind::BadInput);
  CHECK_THAT(s.error().message, ContainsSubstring("the index 2 is out of range"));
  checkSame(y, {20, 10, 10});
}

TEST_CASE("of a choice, only what is chosen is evaluated") {
  const Program p = parsed(R"(loops 1
input x: i32[3]
output y: i32[5]
nest i < 5
  y[i] = select(1 <= i and i < 4, x[i - 1], checked_divisor(1_i32))
)");
  std::vector<int32_t> x{7, 8, 9}, y(5);
  REQUIRE(interpret(p, {}, std::vector<Memory>{memory(x, {1}), memory(y, {1})}));
  CHECK(y == std::vector<int32_t>{1, 7, 8, 9, 1});
}

TEST_CASE("a temporary carries values from nest to nest, and strides may be 0") {
  const Program p = parsed(R"(loops 1
size n in 1..8
input x: f16[n, 4]
output y: bf16[4, n]
temporary t: f64[n, 4]
nest i < n, j < 4
  t[i, j] = f64(x[i, j]) + 1.0_f64
nest j < 4
  y[j, i] = bf16(t[i, j] + sum(r < n: t[r, j])) for i < n
)");
  std::vector<uint16_t> x{floatToHalf(1), floatToHalf(2), floatToHalf(3), floatToHalf(4)}, y(8);
  REQUIRE(interpret(p, std::vector<int64_t>{2}, std::vector<Memory>{memory(x, {0, 1}), memory(y, {2, 1})}));
  for (size_t j = 0; j < 4; ++j) {
    CHECK(bfloatToFloat(y[j * 2]) == 3 * (static_cast<float>(j) + 2));
    CHECK(y[j * 2] == y[j * 2 + 1]);
  }
}
