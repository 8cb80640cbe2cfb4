#include "core/ir/size_expression.h"

#include "tests/support/catch.h"

using namespace graft;

namespace {

std::optional<int64_t> valueOf(std::string_view text) {
  const auto e = SizeExpression::parse(text);
  if (!e) return std::nullopt;
  return e->evaluate([](std::string_view s) -> std::optional<int64_t> {
    if (s == "s0") return 7;
    if (s == "s1") return 10;
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("sizes are computed as Python computes them") {
  CHECK(valueOf("s0") == 7);
  CHECK(valueOf("2*s0 + s1//3 - 1") == 16);
  CHECK(valueOf("s0 - s1 - 1") == -4);
  CHECK(valueOf("2*(s0 + 1)//3") == 5);
  CHECK(valueOf("-s0//2") == -4);
  CHECK(valueOf("-(s0//2)") == -3);
  CHECK(valueOf("Mod(-s0, 4)") == 1);
  CHECK(valueOf("Max(s0, Min(s1, 8))") == 8);
}

TEST_CASE("what is no size has no value") {
  for (std::string_view text :
       {"", "s0 +", "(s0", "s0)", "2s", "s0 s1", "Pow(s0, 2)", "Max(s0)", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(SizeExpression::parse(text));
  }
  for (std::string_view text : {"s2", "s0//0", "s0//(s0 - s1)", "9223372036854775807*s0", "9223372036854775807 + s0"}) {
    INFO(text);
    CHECK(SizeExpression::parse(text));
    CHECK_FALSE(valueOf(text));
  }
  const auto nested = [](size_t depth) { return std::string(depth, '(') + "s0" + std::string(depth, ')'); };
  CHECK(valueOf(nested(99)) == 7);
  CHECK_FALSE(SizeExpression::parse(nested(100)));
  CHECK_FALSE(SizeExpression::parse(std::string(100'000, '(')));
  CHECK_FALSE(SizeExpression::parse(std::string(100'000, '-') + "s0"));
}

TEST_CASE("names of values and calls are one symbol each, where they are asked for") {
  const auto symbols = [](std::string_view text) {
    std::vector<std::string> out;
    if (const auto e = SizeExpression::parse(text, SizeExpression::Names::Any))
      for (const auto& step : e->steps())
        if (step.kind == SizeExpression::Kind::Symbol) out.push_back(step.symbol);
    return out;
  };
  CHECK(symbols("%x.1 + 2*size(x,1) + Max(s0, f(g(1), 2))") ==
        std::vector<std::string>{"%x.1", "size(x,1)", "s0", "f(g(1), 2)"});
  CHECK_FALSE(SizeExpression::parse("size(x,1", SizeExpression::Names::Any));
  CHECK_FALSE(SizeExpression::parse("size(x,1)"));
  CHECK_FALSE(SizeExpression::parse("%x.1"));
}
