#include "matcher/rule/symbolic.h"

#include "tests/support/catch.h"

using namespace graft;

namespace {

std::string canonical(std::string_view text) {
  const auto p = Polynomial::parse(text);
  return p ? p->text() : "none";
}

}  // namespace

TEST_CASE("rounded quotients are in lowest terms, and one of another is one") {
  CHECK(canonical("2*(d//4)//4") == "floor(d,8)");
  CHECK(canonical("d//2//3") == "floor(d,6)");
  CHECK(canonical("(4*a + 2*b)//6") == "floor(2*a + b,3)");
  CHECK(canonical("(d + 1)//2//2") == "floor(d + 1,4)");
  CHECK(canonical("6*d//3") == "2*d");
  // Not alone, or not by a number: nothing to join.
  CHECK(canonical("(d//2 + 1)//2") == "floor(floor(d,2) + 1,2)");
  CHECK(canonical("d//2//n") == "floor(floor(d,2),n)");
  CHECK(canonical("3*(d//2)//2") == "floor(3*floor(d,2),2)");
}

TEST_CASE("sizes compare by meaning, whatever their atoms are") {
  CHECK(canonical("2*(s0 + 1) - s0 - s0") == "2");
  CHECK(canonical("-(s0 - 3)*2") == "-2*s0 + 6");
  CHECK(canonical("size(x,1)*2 + size(x,1)") == "3*size(x,1)");
  CHECK(canonical("%size.1 + floor(a + 1,4) - %size.1") == "floor(a + 1,4)");
  CHECK(canonical("-7//2") == "-4");
}

TEST_CASE("Mod, Max and Min are atoms of what they are of") {
  CHECK(canonical("Mod(s0, 2) + Mod(s0, 2)") == "2*Mod(s0, 2)");
  CHECK(canonical("Max(2 + s0, Min(s1, 8))") == "Max(s0 + 2, Min(s1, 8))");
  CHECK(canonical("Max(1 + s0, 2) - Max(s0 + 1, 2)") == "0");
  CHECK(canonical(canonical("4*Mod(s0, 2)//3")) == canonical("4*Mod(s0, 2)//3"));
  CHECK(canonical("Max(s0)") == "none");
}

TEST_CASE("what is no size, or nests too deep, is no polynomial") {
  for (std::string_view text : {"", "s0 +", "(s0", "s0)", "2s", "s0 s1", "size(x,1", "99999999999999999999"}) {
    INFO(text);
    CHECK(canonical(text) == "none");
  }
  const auto nested = [](size_t depth) { return std::string(depth, '(') + "s0" + std::string(depth, ')'); };
  CHECK(canonical(nested(99)) == "s0");
  CHECK(canonical(nested(100)) == "none");
  CHECK(canonical(std::string(100'000, '(')) == "none");
  CHECK(canonical(std::string(100'000, '-') + "s0") == "none");
}
