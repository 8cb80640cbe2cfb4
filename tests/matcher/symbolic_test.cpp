#include "matcher/internal/symbolic.h"

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
