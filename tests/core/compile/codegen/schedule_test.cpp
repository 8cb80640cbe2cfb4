// What may be chosen of a kernel's loops: which choices there are, and that they show in the C++.
#include "core/compile/codegen/loop_schedule.h"

#include "core/compile/codegen/cpp/cpp_code.h"
#include "core/compile/loops/text.h"
#include "tests/support/catch.h"

using namespace graft;
using codegen::LoopSchedule;

namespace {

loops::Program parsed(const char* text) {
  auto program = loops::parseProgram(text);
  REQUIRE(program);
  return std::move(*program);
}

std::string refusal(const loops::Program& p, const LoopSchedule& s) {
  const Status possible = codegen::checkSchedule(p, s);
  return possible ? "" : possible.error().message;
}

std::string body(const loops::Program& p, const LoopSchedule& s) {
  const std::string text = codegen::makeCppCode(p, {.schedule = s});
  return text.substr(text.find("int run("));
}

// b repeats along i, so the two ranges stay two loops.
constexpr const char* pointwise = R"(loops 1
input x: f32[64, 768]
input b: f32[768]
output y: f32[64, 768]
nest i < 64, j < 768
  y[i, j] = maximum(x[i, j] + b[j], 0.0)
)";

constexpr const char* rows = R"(loops 1
input x: f32[64, 768]
output y: f32[64]
nest i < 64
  y[i] = sum(r < 768: x[i, r])
)";

}  // namespace

TEST_CASE("choices that the loops leave open are taken") {
  const loops::Program p = parsed(pointwise);
  CHECK(refusal(p, {}).empty());
  CHECK(refusal(p, {.lanes = "i", .order = {"j", "i"}, .registers = 1, .block = 64, .threads = 2}).empty());
  CHECK(body(p, {}).find("// 64 lanes") == std::string::npos);
  CHECK(body(p, {}) != body(p, {.registers = 1}));
  // The loop that the lanes run along is the innermost.
  const std::string alongI = body(p, {.lanes = "i"});
  CHECK(alongI.find("int64_t j = 0") < alongI.find("int64_t i"));
  const std::string alongJ = body(p, {.lanes = "j"});
  CHECK(alongJ.find("int64_t i = 0") < alongJ.find("int64_t j"));
}

TEST_CASE("a permuted copy transposes squares, whichever side has neighbours apart") {
  const std::string toChannelsFirst = body(parsed(R"(loops 1
input a: f32[32, 48, 64]
output y: f32[64, 32, 48]
nest c < 64, i < 32, j < 48
  y[c, i, j] = a[i, j, c]
)"),
                                           {});
  CHECK_THAT(toChannelsFirst, ContainsSubstring("j < 1536; ++j) {  // 4 lanes, squares with c transposed"));
  const std::string toChannelsLast = body(parsed(R"(loops 1
input a: f32[64, 32, 48]
output y: f32[32, 48, 64]
nest i < 32, j < 48, c < 64
  y[i, j, c] = a[c, i, j]
)"),
                                          {});
  CHECK_THAT(toChannelsLast, ContainsSubstring("squares with j transposed"));
}

TEST_CASE("choices that the loops do not leave are refused with the reason") {
  const loops::Program p = parsed(pointwise), sums = parsed(rows);
  CHECK(refusal(p, {.lanes = "k"}) == "the kernel has no outer range k; it has i, j");
  CHECK(refusal(p, {.order = {"i", "r"}}) == "the kernel has no outer range r; it has i, j");
  CHECK(refusal(p, {.registers = 3}) == "a vector takes 1, 2 or 4 registers");
  CHECK(refusal(p, {.transposes = false}) == "the kernel transposes no loads");
  CHECK(refusal(sums, {.lanes = "r"}) == "the kernel has no outer range r; it has i");
  CHECK(refusal(sums, {.lanes = "inner", .block = 8}).starts_with("block is of lanes along an outer range"));
}

TEST_CASE("a schedule's text reads back as it was") {
  const LoopSchedule s{
      .lanes = "i1", .order = {"i1", "i0"}, .registers = 2, .block = 512, .threads = 3, .transposes = false};
  const auto again = codegen::parseSchedule(codegen::printSchedule(s));
  REQUIRE(again);
  CHECK(*again == s);
  CHECK(codegen::printSchedule({}).empty());
  for (const char* wrong : {"lanes\n", "lanes a b\n", "registers 3\n", "registers 2x\n", "block 0\n", "threads -1\n",
                            "transpose maybe\n", "colour red\n"}) {
    INFO(wrong);
    CHECK_FALSE(codegen::parseSchedule(wrong));
  }
}
