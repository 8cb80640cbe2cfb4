// What verify() accepts and what it refuses, and the sizes that a call may have.
#include "core/compile/loops/verify.h"

#include "core/compile/loops/text.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

namespace {

// Nothing where the program is accepted.
std::string complaint(std::string_view text) {
  const auto p = parseProgram(text);
  return p ? "" : p.error().message;
}

// With inputs of several shapes, and one output.
std::string complaintOf(std::string_view output, std::string_view nest) {
  const std::string text =
      "loops 1\nsize n in 1..512\nsize m in 0..\ninput x: f32[n, 8]\ninput v: f32[8]\ninput w: f32[m]\n"
      "input ids: i64[n]\noutput y: f32[" +
      std::string(output) + "]\n" + std::string(nest);
  return complaint(text);
}

}  // namespace

TEST_CASE("an index is accepted where bounds prove it") {
  const auto load = [](std::string_view index) {
    return complaintOf("n, 8", "nest i < n, j < 8\n  y[i, j] = x[" + std::string(index) + "]\n");
  };
  CHECK(load("i, j") == "");
  CHECK(load("n - 1 - i, 7 - j") == "");
  CHECK(load("i // 2, j // 2 * 2 + j % 2") == "");
  CHECK(load("(i * 8 + j) // 8, (i * 8 + j) % 8") == "");
  CHECK(load("minimum(i + 1, n - 1), maximum(j - 3, 0)") == "");
  CHECK(load("checked_index(ids[i], n), j") == "");
  CHECK(load("maximum(minimum(ids[i], n - 1), 0), j") == "");
  CHECK_THAT(load("i, j + 1"),
             ContainsSubstring("x[i, j + 1] is outside of 'x': j + 1 may be 8 or more in dimension 1"));
  CHECK_THAT(load("i - 1, j"), ContainsSubstring("i - 1 may be negative in dimension 0"));
  CHECK_THAT(load("ids[i], j"), ContainsSubstring("may be negative"));
  CHECK_THAT(load("i * 2, j"), ContainsSubstring("n or more"));
  CHECK_THAT(load("i"), ContainsSubstring("has 2 dimensions, and is read with 1"));
}

TEST_CASE("the conditions of the choices around a load count") {
  const auto value = [](std::string_view e) {
    return complaintOf("n + 4", "nest i < n + 4\n  y[i] = " + std::string(e) + "\n");
  };
  CHECK(value("select(2 <= i and i < n + 2, x[i - 2, 0], 0.0)") == "");
  CHECK(value("select(0 <= i - 2 and i - 2 < n, x[i - 2, 0], 0.0)") == "");
  CHECK(value("select(i < 2 or n + 2 <= i, 0.0, x[i - 2, 0])") == "");
  CHECK(value("select(not i < 2, select(i < n + 2, x[i - 2, 0], 1.0), 2.0)") == "");
  CHECK(value("select(i < n, x[i, 0], select(i - n < 8, v[i - n], 0.0))") == "");
  CHECK(value("select(i < n, x[i, i * 8 // n], 0.0)") == "");
  CHECK(value("select(i < 16, v[i // 2], 0.0)") == "");
  CHECK(value("select(0 <= ids[0] and ids[0] < 8, v[ids[0]], 0.0)") == "");
  // A piece of a concatenation, of groups that lie apart.
  CHECK(value("select(4 <= i and i < 8, v[i // 2 * 3 + i % 2 - 6], 0.0)") == "");
  CHECK(value("select(4 <= i and i < 8, v[i % 2 + i // 2 * 3 - 6], 0.0)") == "");
  CHECK_THAT(value("select(4 <= i and i < 8, v[i // 2 * 3 + i % 2 - 7], 0.0)"), ContainsSubstring("may be negative"));
  CHECK_THAT(value("select(3 <= i and i < 8, v[i // 2 * 3 + i % 2 - 6], 0.0)"), ContainsSubstring("may be negative"));
  // Indices are whole numbers: 2*i >= 1 is i >= 1.
  CHECK(value("sum(r < 2: select(i < 9, select(i * 2 + r < 2, 0.0, v[i - 1]), 0.0))") == "");
  CHECK(value("sum(r < 3: select(i * 3 + r < 3, 0.0, select(i * 3 < r + 22, v[i - 1], 0.0)))") == "");
  CHECK(value("select(i < 8, select(3 <= i // 3 * 2, v[i // 3 * 3 - 3], 0.0), 0.0)") == "");
  CHECK_THAT(value("sum(r < 2: select(i < 9, select(i * 2 + r < 1, 0.0, v[i - 1]), 0.0))"),
             ContainsSubstring("negative"));
  CHECK_THAT(value("sum(r < 3: select(i * 3 + r < 3, 0.0, select(i * 3 < r + 26, v[i - 1], 0.0)))"),
             ContainsSubstring("8 or more"));
  CHECK_THAT(value("select(2 <= i and i < n + 2, x[i - 1, 0], 0.0)"), ContainsSubstring("n or more"));
  CHECK_THAT(value("select(2 <= i, 0.0, x[i - 2, 0])"), ContainsSubstring("negative"));
  // Both operands of `and` are evaluated.
  CHECK_THAT(value("select(i < n and x[i, 0] < 1.0, 1.0, 0.0)"), ContainsSubstring("outside"));
  // A part that is used with and without a condition needs its bounds without.
  CHECK_THAT(value("select(i < n, x[i, 0], 0.0) + x[i, 0]"), ContainsSubstring("outside"));
}

TEST_CASE("where a range runs, its extent is not 0") {
  CHECK(complaintOf("m", "nest i < m\n  y[i] = w[0] + w[m - 1]\n") == "");
  CHECK(complaintOf("m", "nest i < m\n  y[i] = w[i % m] + w[i // m]\n") == "");
  CHECK(complaintOf("1", "nest i < 1\n  y[i] = sum(r < m: w[0])\n") == "");
  CHECK_THAT(complaintOf("1", "nest i < 1\n  y[i] = w[0]\n"), ContainsSubstring("m or more"));
  CHECK(complaintOf("0", "nest i < 0\n  y[i] = v[100]\n") == "");
}

TEST_CASE("no divisor may be 0") {
  const auto value = [](std::string_view e) {
    return complaintOf("n", "nest i < n\n  y[i] = f32(" + std::string(e) + ")\n");
  };
  CHECK(value("ids[i] // n") == "");
  CHECK(value("ids[i] % checked_divisor(ids[0])") == "");
  CHECK(value("ids[i] // -3") == "");
  CHECK(value("i32(ids[i]) % 4_i32") == "");
  CHECK_THAT(value("ids[i] // m"), ContainsSubstring("the divisor of ids[i] // m may be 0"));
  CHECK_THAT(value("i32(ids[i]) % i32(i)"), ContainsSubstring("may be 0"));
  CHECK_THAT(value("checked_index(i, m)"), ContainsSubstring("the size may be 0"));
}

TEST_CASE("an output is written whole and once") {
  const auto nest = [](std::string_view output, std::string_view lines) {
    return complaintOf(output, "nest" + std::string(lines) + "\n");
  };
  const std::string no = "it does not follow that 'y' is written whole";
  CHECK(nest("n, 8", "\n  y[i, j] = 1.0 for j < 8, i < n") == "");
  CHECK(nest("n, 8", " i < n * 8\n  y[i // 8, i % 8] = 1.0") == "");
  CHECK(nest("n, 8", " i < n\n  y[i, a * 4 + b] = 1.0 for a < 2, b < 4") == "");
  CHECK(nest("n, 8", " i < n\n  y[i, b * 2 + a] = 1.0 for a < 2, b < 4") == "");
  CHECK(nest("n * 8", " i < n, j < 8\n  y[i * 8 + j] = 1.0") == "");
  CHECK(nest("8", " i < 8\n  y[7 - i] = 1.0") == "");
  CHECK(nest("n + 8", "\n  y[i] = 1.0 for i < n\n  y[n + j] = 2.0 for j < 8") == "");
  CHECK(nest("n + 8", "\n  y[n + j] = 2.0 for j < 8\nnest\n  y[i] = 1.0 for i < n") == "");
  CHECK(nest("6, 4",
             "\n  y[i, j] = 1.0 for i < 2, j < 4\n  y[k + 2, a] = 1.0 for k < 4, a < 1\n"
             "  y[k + 2, b + 1] = 2.0 for k < 4, b < 3") == "");
  CHECK(nest("", "\n  y[] = 1.0") == "");
  CHECK_THAT(nest("n, 8", " i < n\n  y[i, j] = 1.0 for j < 7"), ContainsSubstring(no));
  CHECK_THAT(nest("8", " i < 8, k < 2\n  y[i] = 1.0"), ContainsSubstring(no));
  CHECK_THAT(nest("8", " i < 8\n  y[i // 2] = 1.0"), ContainsSubstring(no));
  CHECK_THAT(nest("8", "\n  y[i] = 1.0 for i < 5\n  y[j + 4] = 1.0 for j < 4"), ContainsSubstring(no));
  CHECK_THAT(nest("8", "\n  y[i] = 1.0 for i < 8\n  y[i] = 1.0 for i < 8"), ContainsSubstring(no));
  CHECK_THAT(nest("8", "\n  y[i * 2] = 1.0 for i < 4"), ContainsSubstring(no));
  CHECK_THAT(nest("8", " i < 8\n  y[i + 1] = 1.0"), ContainsSubstring("y[i + 1] is outside of 'y'"));
  CHECK_THAT(nest("8", " i < 8\n  v[i] = 1.0"), ContainsSubstring("the input 'v' is written"));
  CHECK_THAT(nest("8", " i < 8"), ContainsSubstring("'y' is never written"));
}

TEST_CASE("what is read was written before") {
  const auto nest = [](std::string_view lines) { return complaintOf("n", lines); };
  CHECK(nest("temporary t: f32[n]\nnest i < n\n  t[i] = 1.0\nnest i < n\n  y[i] = t[n - 1 - i]\n") == "");
  CHECK(nest("nest i < n\n  local k: f32[4]\n  k[j] = 1.0 for j < 4\n  y[i] = k[3]\n") == "");
  CHECK_THAT(nest("temporary t: f32[n]\nnest i < n\n  t[i] = 1.0\n  y[i] = t[i]\n"),
             ContainsSubstring("'t' is read before it is written"));
  CHECK_THAT(nest("temporary t: f32[n]\nnest i < n\n  y[i] = t[i]\nnest i < n\n  t[i] = 1.0\n"),
             ContainsSubstring("'t' is read before it is written"));
  CHECK_THAT(nest("nest i < n\n  local k: f32[4]\n  k[j] = 1.0 for j < 3\n  y[i] = k[3]\n"),
             ContainsSubstring("'k' is read before its nest has written all of it"));
  CHECK_THAT(nest("nest i < n\n  local k: f32[]\n  y[i] = k[]\n  k[] = 1.0\n"),
             ContainsSubstring("'k' is read before"));
  CHECK_THAT(nest("nest i < n\n  local k: f32[]\n  k[] = 1.0\n  y[i] = k[]\nnest i < n\n  y[i] = k[]\n"),
             ContainsSubstring("'k' is read before"));
  CHECK_THAT(nest("nest i < n\n  local k: f32[]\n  k[] = 1.0\n  k[] = k[] + 1.0\n  y[i] = k[]\n"),
             ContainsSubstring("a store of 'k' reads it"));
}

TEST_CASE("ranges are in scope, and dtypes fit") {
  const auto nest = [](std::string_view lines) { return complaintOf("n", lines); };
  CHECK_THAT(nest("nest i < n\n  y[i] = sum(r < 4: v[r]) + v[r]\n"),
             ContainsSubstring("'r' does not run where sum(r < 4: v[r]) + v[r] needs it"));
  CHECK_THAT(nest("nest i < n\n  y[i] = sum(i < n: x[i, 0])\n"), ContainsSubstring("'i' runs twice"));
  CHECK_THAT(nest("nest i < n\n  y[i] = 1.0 for i < n\n"), ContainsSubstring("'i' runs twice"));
  CHECK_THAT(nest("nest i < n\n  y[i] = sum(r < 4: sum(r < 4: v[r]))\n"), ContainsSubstring("'r' runs twice"));
  CHECK_THAT(nest("nest i < n\n  y[i] = i\n"), ContainsSubstring("'y' is f32, and is written as i64"));
  CHECK_THAT(nest("nest i < n\n  y[i] = f32(exp(i))\n"), ContainsSubstring("'exp' does not take i64"));
  CHECK_THAT(nest("nest i < n\n  y[i] = f32(f16(v[0]) + f16(v[1]))\n"), ContainsSubstring("does not take f16"));
  CHECK_THAT(nest("nest i < n\n  y[i] = f32(i < 2 + 1_i32)\n"), ContainsSubstring("one dtype"));
  CHECK_THAT(nest("nest i < n\n  y[i] = v[i32(i)]\n"), ContainsSubstring("an index of 'v' is not i64"));
  CHECK_THAT(nest("nest i < n - 2\n  y[i] = 1.0\n"), ContainsSubstring("the extent n - 2 of 'i' may be negative"));
  CHECK_THAT(nest("nest i < n // m\n  y[i] = 1.0\n"), ContainsSubstring("the divisor of n // m may be 0"));
  CHECK_THAT(nest("nest\n  y[i] = v[0] for i < n scan any over i\n"), ContainsSubstring("no scan of 'y'"));
}

TEST_CASE("a part that occurs everywhere is verified once") {
  std::string text =
      "loops 1\ninput x: f32[4]\noutput y: f32[4]\nnest i < 4\n  let a0 = select(i < 2, x[i + 2], x[i])\n";
  for (int n = 1; n < 60; ++n) {
    const std::string before = "a" + std::to_string(n - 1), c = std::to_string(n % 4);
    text += "  let a" + std::to_string(n) + " = select(i < " + c + ", " + before + ", " + before + " * 2.0)\n";
  }
  CHECK(complaint(text + "  y[i] = a59\n") == "");
}

// (n * n * n) // (n * n) is n over whole numbers. In 64 bits n * n * n may be negative.
TEST_CASE("an index that data are in is followed by the check of sizes, or not trusted") {
  const auto text = [](const std::string& one) {
    return "loops 1\nsize n in 1..\ninput v: i64[]\ninput b: i32[]\ninput x: f32[n]\noutput y: f32[]\nnest\n  y[] = "
           "x[" +
           one + " * n * n * n // (n * n) - 1]\n";
  };
  const std::vector<int64_t> sizes{3 << 21};
  CHECK_THAT(complaint(text("(v[] - v[] + 1)")), ContainsSubstring("may be anything"));
  CHECK_THAT(complaint(text("(v[] * 0 + 1)")), ContainsSubstring("may be anything"));
  CHECK_THAT(complaint(text("select(0 < n, 1, v[])")), ContainsSubstring("may be anything"));
  for (const char* one : {"1", "maximum(minimum(i64(b[]), 1), 1)", "absolute(-1)"}) {
    INFO(one);
    CHECK(complaint(text(one)) == "");
    const auto p = parseProgram(text(one));
    REQUIRE(p);
    const Status s = checkSizes(*p, sizes);
    REQUIRE_FALSE(s);
    CHECK_THAT(s.error().message, ContainsSubstring("would leave 64 bits"));
  }
}

TEST_CASE("a call's sizes are within their limits and fit 64 bits") {
  const auto p = parseProgram(
      "loops 1\nsize n in 1..\nsize m in 2..8\ninput x: f32[n]\noutput y: f32[n, m]\nnest i < n * m\n"
      "  y[i // m, i % m] = x[i // m]\n");
  REQUIRE(p);
  const auto sizes = [&](std::vector<int64_t> values) {
    const Status s = checkSizes(*p, values);
    return s ? std::string() : s.error().message;
  };
  CHECK(sizes({1000000, 8}) == "");
  CHECK_THAT(sizes({0, 8}), ContainsSubstring("n is 0, and the loops are made for 1 and more"));
  CHECK_THAT(sizes({1, 9}), ContainsSubstring("m is 9, and the loops are made for 2 to 8"));
  CHECK_THAT(sizes({1}), ContainsSubstring("the program has 2 sizes; the call gives 1"));
  CHECK_THAT(sizes({INT64_MAX / 4, 8}), ContainsSubstring("would leave 64 bits"));
  CHECK_THAT(sizes({INT64_MAX / 16, 8}), ContainsSubstring("'y' is too large"));
}
