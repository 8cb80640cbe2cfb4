// Graphs written as text, and results that a test cannot do without.
#pragma once

#include "core/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/operators.h"

/// REQUIRE of a Result or Status that says the error's message where it fails.
#define REQUIRE_RESULT(...)                                      \
  do {                                                           \
    INFO(((__VA_ARGS__) ? "" : (__VA_ARGS__).error().format())); \
    REQUIRE((__VA_ARGS__));                                      \
  } while (false)

namespace graft::test {

/// The graph that a test spells out; the test fails where it is none.
inline Graph graphOf(std::string_view text, const OperatorSet& operators = testOperators()) {
  auto g = parseText(text, operators);
  REQUIRE_RESULT(g);
  return std::move(*g);
}

}  // namespace graft::test
