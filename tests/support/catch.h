// Catch2 as both supported systems ship it: version 2 (Debian 12) and version 3 (Ubuntu 24.04). Tests include this
// header only and use what both spell alike, plus the names evened out below.
//
//   TEST_CASE("an empty graph verifies") {
//     CHECK(seconds == Approx(0.5));
//     CHECK_THAT(message, ContainsSubstring("line 3"));
//   }
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
#else
#include <catch2/catch.hpp>  // Approx is global here
#include <string>
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
