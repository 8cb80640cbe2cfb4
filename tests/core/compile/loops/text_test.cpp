// The text of programs: what is printed is read back, and what is no program is refused at its place.
#include "core/compile/loops/text.h"

#include <fstream>
#include <limits>
#include <sstream>

#include "tests/support/catch.h"

using namespace graft;
using namespace graft::loops;

namespace {

Program parsed(std::string_view text) {
  auto p = parseProgram(text);
  if (!p) FAIL(p.error().format());
  return std::move(*p);
}

std::string refusal(std::string_view text) {
  const auto p = parseProgram(text, "p");
  REQUIRE(!p);
  return p.error().format();
}

constexpr std::string_view kSoftmax = R"(loops 1
size s0 in 1..512
input x: f32[s0, 768]
output y: f32[s0, 768]
nest i0 < s0
  local m: f32[]
  m[] = maximum(r0 < 768: x[i0, r0])
  y[i0, i1] = exp(x[i0, i1] - m[]) for i1 < 768
)";

}  // namespace

TEST_CASE("a printed program is read back as it was") {
  for (const std::string_view text : {
           kSoftmax,
           std::string_view("loops 1\ninput x: f16[4]\noutput y: bf16[4]\nnest i0 < 4\n"
                            "  y[i0] = bf16(f32(x[i0]) * 0.1 + 1e-05)\n"),
           std::string_view("loops 1\nsize n in 0..\ninput ids: i64[n]\ninput x: f64[1000, 8]\noutput y: f64[n, 8]\n"
                            "nest i0 < n, i1 < 8\n"
                            "  y[i0, i1] = x[checked_index(ids[i0], 1000), i1] * -inf_f64 - -0.0_f64\n"),
           std::string_view("loops 1\ninput x: i32[6]\noutput y: i64[6]\nnest\n"
                            "  y[i0] = i64(x[i0]) for i0 < 6 scan sum over i0\n"),
           std::string_view("loops 1\ninput a: bool[4]\ninput b: bool[4]\noutput y: u8[4]\nnest i0 < 4\n"
                            "  y[i0] = select((a[i0] or not b[i0]) and (a[i0] == b[i0]) != xor(a[i0], b[i0]), "
                            "bit_and(3_u8, 5_u8), 255_u8 - 3_u8)\n"),
       })
    CHECK(printProgram(parsed(text)) == text);
}

TEST_CASE("the programs in the documentation are printed as they stand there") {
  std::ifstream file(GRAFT_SOURCE_DIR "/docs/internals/compiler.md");
  std::stringstream all;
  all << file.rdbuf();
  const std::string page = all.str(), begin = "```loops\n";
  int programs = 0;
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1), ++programs) {
    const size_t from = at + begin.size();
    const std::string text = page.substr(from, page.find("```", from) - from);
    CHECK(printProgram(parsed(text)) == text);
  }
  CHECK(programs >= 2);
}

TEST_CASE("a literal keeps its number and its dtype") {
  Program p;
  ExprPool& e = p.expressions;
  const auto text = [&](ExprId id) { return printExpression(p, id); };
  CHECK(text(e.integer(std::numeric_limits<int64_t>::min())) == "-9223372036854775808");
  CHECK(text(e.number(DType::Float32, 0.1)) == "0.1");
  CHECK(text(e.number(DType::Float32, -0.0)) == "-0.0");
  CHECK(text(e.number(DType::Float64, 0.1)) == "0.1_f64");
  CHECK(text(e.number(DType::Float32, 1.0 / 0.0)) == "inf");
  CHECK(text(e.number(DType::Float64, 0.0 / 0.0)) == "nan_f64");
  CHECK(text(e.number(DType::Int8, int64_t{-3})) == "-3_i8");
  CHECK(text(e.unary(Op::Negate, e.integer(3))) == "-(3)");
  CHECK(text(e.boolean(true)) == "true");
}

TEST_CASE("operators keep their order") {
  Program p;
  ExprPool& e = p.expressions;
  const RangeId i = p.addRange("i", e.integer(8)), j = p.addRange("j", e.integer(8));
  const ExprId a = e.range(i), b = e.range(j);
  const auto make = [&](Op op, ExprId x, ExprId y) { return e.binary(op, x, y); };
  CHECK(printExpression(p, make(Op::Subtract, a, make(Op::Subtract, b, a))) == "i - (j - i)");
  CHECK(printExpression(p, make(Op::Subtract, make(Op::Subtract, a, b), a)) == "i - j - i");
  CHECK(printExpression(p, make(Op::Multiply, make(Op::Add, a, b), a)) == "(i + j) * i");
  CHECK(printExpression(p, make(Op::FloorDivide, a, make(Op::Multiply, b, a))) == "i // (j * i)");
  CHECK(printExpression(p, e.unary(Op::Not, make(Op::Less, a, b))) == "not i < j");
  CHECK(printExpression(p, make(Op::Equal, e.unary(Op::Not, make(Op::Less, a, b)), e.boolean(true))) ==
        "(not i < j) == true");
}

TEST_CASE("the text of a shared expression grows with its nodes alone") {
  Program p;
  ExprPool& e = p.expressions;
  const BufferId x = p.addBuffer("x", DType::Float32, {e.integer(4)}, Buffer::Role::Input);
  const BufferId y = p.addBuffer("y", DType::Float32, {e.integer(4)}, Buffer::Role::Output);
  const RangeId i = p.addRange("i0", e.integer(4));
  ExprId v = e.load(x, {e.range(i)}, DType::Float32);
  for (int n = 0; n < 60; ++n) v = e.binary(Op::Add, e.unary(Op::Exp, v), e.unary(Op::Sin, v));
  for (int n = 0; n < 2000; ++n) v = e.unary(Op::Tanh, v);
  p.nests.push_back({{i}, {{y, {e.range(i)}, v, {}, {}, ReduceKind::Sum}}});
  const std::string text = printProgram(p);
  CHECK(text.size() < 60000);
  CHECK_THAT(text, ContainsSubstring("  let t0 = "));
  CHECK(printProgram(parsed(text)) == text);
}

TEST_CASE("names become plain and differ from each other") {
  Program p;
  ExprPool& e = p.expressions;
  p.addSize({"n", 1, 4});
  const BufferId x = p.addBuffer("layer.0 weight", DType::Float32, {e.size(SizeId(0))}, Buffer::Role::Input);
  const BufferId y = p.addBuffer("n", DType::Float32, {e.size(SizeId(0))}, Buffer::Role::Output);
  const RangeId i = p.addRange("nan", e.size(SizeId(0)));
  p.nests.push_back({{i}, {{y, {e.range(i)}, e.load(x, {e.range(i)}, DType::Float32), {}, {}, ReduceKind::Sum}}});
  const std::string text = printProgram(p);
  CHECK(text ==
        "loops 1\nsize n in 1..4\ninput layer_0_weight: f32[n]\noutput n_1: f32[n]\nnest v_nan < n\n"
        "  n_1[v_nan] = layer_0_weight[v_nan]\n");
  CHECK(printProgram(parsed(text)) == text);
}

TEST_CASE("what is no program is refused at its place") {
  CHECK_THAT(refusal(""), ContainsSubstring("begins with the line 'loops 1'"));
  CHECK_THAT(refusal("loops 2\n"), StartsWith("p:1:6:") && ContainsSubstring("use a newer one"));
  CHECK_THAT(refusal("loops 1\nsize s in 1..x\n"), StartsWith("p:2:14:"));
  CHECK_THAT(refusal("loops 1\ninput x: f8[2]\n"), StartsWith("p:2:10:") && ContainsSubstring("expected a dtype"));
  const std::string start = "loops 1\ninput x: f32[4]\noutput y: f32[4]\nnest i < 4\n  y[i] = ";
  CHECK_THAT(refusal(start + "x[i] + 1\n"), StartsWith("p:5:15:") && ContainsSubstring("f32 and i64"));
  CHECK_THAT(refusal(start + "x[k]\n"), StartsWith("p:5:12:") && ContainsSubstring("nothing has the name 'k'"));
  CHECK_THAT(refusal(start + "exp(x[i], x[i])\n"), ContainsSubstring("'exp' takes 1 operand, not 2"));
  CHECK_THAT(refusal(start + "x[i] x\n"), ContainsSubstring("expected the end of the line"));
  CHECK_THAT(refusal(start + std::string(100000, '(')), ContainsSubstring("nested too deep"));
  CHECK_THAT(refusal(start + "300_u8\n"), ContainsSubstring("does not fit u8"));
  CHECK_THAT(refusal(start + "sum(i < 5: x[0])\n"), ContainsSubstring("has another extent before"));
}
